//! Types of columns: what a column may hold.

use std::fmt;

use serde_json::{Map, Value, json};

use super::atom::{Atom, AtomType, Real, json_integer};
use super::datum::Datum;
use super::error::Error;
use super::object::{ObjectReader, as_id};

/// [`ColumnType::max`] of a column that holds any number of elements, and the greatest length of
/// a string without a limit.
pub const UNLIMITED: u32 = u32::MAX;

/// How a reference binds the row that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// The row must exist, and cannot be deleted while it is referenced.
    Strong,
    /// The reference goes when the row goes.
    Weak,
}

/// What a [`BaseType`] allows beyond its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// One of these atoms, which are sorted.
    Enum(Vec<Atom>),
    /// An integer in this range.
    Integer {
        /// The least integer.
        min: i64,
        /// The greatest integer.
        max: i64,
    },
    /// A real in this range.
    Real {
        /// The least real.
        min: Real,
        /// The greatest real.
        max: Real,
    },
    /// A string of this many characters.
    Length {
        /// The least number of characters.
        min: u32,
        /// The greatest number of characters.
        max: u32,
    },
    /// The UUID of a row of a table.
    Reference {
        /// The table.
        table: String,
        /// How the reference binds.
        strength: Strength,
    },
}

/// The type of atoms, with a constraint (RFC 7047 section 3.2, `<base-type>`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseType {
    atom_type: AtomType,
    constraint: Option<Constraint>,
}

impl From<AtomType> for BaseType {
    fn from(atom_type: AtomType) -> Self {
        Self { atom_type, constraint: None }
    }
}

fn json_u32(json: &Value) -> Option<u32> {
    json_integer(json).and_then(|value| u32::try_from(value).ok())
}

impl BaseType {
    /// The type of the atoms.
    pub fn atom_type(&self) -> AtomType {
        self.atom_type
    }

    /// What is allowed beyond the type.
    pub fn constraint(&self) -> Option<&Constraint> {
        self.constraint.as_ref()
    }

    /// The table that atoms of this type refer to, and how.
    pub fn reference(&self) -> Option<(&str, Strength)> {
        match &self.constraint {
            Some(Constraint::Reference { table, strength }) => Some((table, *strength)),
            _ => None,
        }
    }

    /// Reads a `<base-type>`.
    ///
    /// # Errors
    /// A syntax error.
    pub fn from_json(json: &Value) -> Result<Self, Error> {
        if json.is_string() {
            return Ok(AtomType::from_json(json)?.into());
        }
        let mut reader = ObjectReader::new(json, "ovsdb type")?;
        let atom_type = AtomType::from_json(reader.required("type")?)?;
        let constraint = if let Some(allowed) = reader.optional("enum") {
            let set = ColumnType { key: atom_type.into(), value: None, min: 1, max: UNLIMITED };
            Some(Constraint::Enum(Datum::from_json(allowed, &set, None)?.as_set().to_vec()))
        } else {
            match atom_type {
                AtomType::Integer => Self::integer_constraint(&mut reader)?,
                AtomType::Real => Self::real_constraint(&mut reader)?,
                AtomType::String => Self::length_constraint(&mut reader)?,
                AtomType::Uuid => Self::reference_constraint(&mut reader)?,
                AtomType::Boolean => None,
            }
        };
        reader.finish()?;
        Ok(Self { atom_type, constraint })
    }

    fn integer_constraint(reader: &mut ObjectReader<'_>) -> Result<Option<Constraint>, Error> {
        let min = reader.optional_as("minInteger", json_integer)?.unwrap_or(i64::MIN);
        let max = reader.optional_as("maxInteger", json_integer)?.unwrap_or(i64::MAX);
        if min > max {
            return Err(reader.error("minInteger exceeds maxInteger"));
        }
        let limited = (min, max) != (i64::MIN, i64::MAX);
        Ok(limited.then_some(Constraint::Integer { min, max }))
    }

    fn real_constraint(reader: &mut ObjectReader<'_>) -> Result<Option<Constraint>, Error> {
        let real = |json: &Value| json.as_f64().and_then(Real::new);
        let min = reader.optional_as("minReal", real)?;
        let max = reader.optional_as("maxReal", real)?;
        if (min, max) == (None, None) {
            return Ok(None);
        }
        let min = min.unwrap_or(Real::MIN);
        let max = max.unwrap_or(Real::MAX);
        if min > max {
            return Err(reader.error("minReal exceeds maxReal"));
        }
        Ok(Some(Constraint::Real { min, max }))
    }

    fn length_constraint(reader: &mut ObjectReader<'_>) -> Result<Option<Constraint>, Error> {
        let min = reader.optional_as("minLength", json_u32)?.unwrap_or(0);
        let max = reader.optional_as("maxLength", json_u32)?.unwrap_or(UNLIMITED);
        if min > max {
            return Err(reader.error("minLength exceeds maxLength"));
        }
        let limited = (min, max) != (0, UNLIMITED);
        Ok(limited.then_some(Constraint::Length { min, max }))
    }

    fn reference_constraint(reader: &mut ObjectReader<'_>) -> Result<Option<Constraint>, Error> {
        let Some(table) = reader.optional_as("refTable", as_id)? else { return Ok(None) };
        let strength = match reader.optional_as("refType", as_id)? {
            None | Some("strong") => Strength::Strong,
            Some("weak") => Strength::Weak,
            Some(other) => {
                return Err(reader.error(format_args!(
                    "refType must be \"strong\" or \"weak\" (not \"{other}\")"
                )));
            }
        };
        Ok(Some(Constraint::Reference { table: table.into(), strength }))
    }

    /// The `<base-type>` in JSON.
    pub fn to_json(&self) -> Value {
        let Some(constraint) = &self.constraint else {
            return self.atom_type.as_str().into();
        };
        let mut object = Map::new();
        let mut put = |member: &str, value: Value| object.insert(member.into(), value);
        put("type", self.atom_type.as_str().into());
        match constraint {
            Constraint::Enum(allowed) => match allowed.as_slice() {
                [atom] => {
                    put("enum", atom.to_json());
                }
                atoms => {
                    let atoms: Vec<_> = atoms.iter().map(Atom::to_json).collect();
                    put("enum", json!(["set", atoms]));
                }
            },
            Constraint::Integer { min, max } => {
                if *min != i64::MIN {
                    put("minInteger", json!(min));
                }
                if *max != i64::MAX {
                    put("maxInteger", json!(max));
                }
            }
            Constraint::Real { min, max } => {
                if *min != Real::MIN {
                    put("minReal", Atom::Real(*min).to_json());
                }
                if *max != Real::MAX {
                    put("maxReal", Atom::Real(*max).to_json());
                }
            }
            Constraint::Length { min, max } => {
                if *min != 0 {
                    put("minLength", json!(min));
                }
                if *max != UNLIMITED {
                    put("maxLength", json!(max));
                }
            }
            Constraint::Reference { table, strength } => {
                put("refTable", json!(table));
                if *strength == Strength::Weak {
                    put("refType", "weak".into());
                }
            }
        }
        Value::Object(object)
    }
}

/// The type of a column (RFC 7047 section 3.2, `<type>`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnType {
    key: BaseType,
    value: Option<BaseType>,
    min: u32,
    max: u32,
}

impl From<AtomType> for ColumnType {
    /// The type of a scalar without constraint.
    fn from(atom_type: AtomType) -> Self {
        Self { key: atom_type.into(), value: None, min: 1, max: 1 }
    }
}

impl ColumnType {
    /// The type of the atoms of a set, or of the keys of a map.
    pub fn key(&self) -> &BaseType {
        &self.key
    }

    /// The type of the values of a map; `None` for a set.
    pub fn value(&self) -> Option<&BaseType> {
        self.value.as_ref()
    }

    /// The least number of elements, 0 or 1.
    pub fn min(&self) -> u32 {
        self.min
    }

    /// The greatest number of elements, 1 at least; [`UNLIMITED`] if there is none.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// Whether the column holds exactly one atom.
    pub fn is_scalar(&self) -> bool {
        self.value.is_none() && (self.min, self.max) == (1, 1)
    }

    /// Whether the column holds at most one atom.
    pub fn is_optional(&self) -> bool {
        self.value.is_none() && (self.min, self.max) == (0, 1)
    }

    /// The same type for other numbers of elements.
    pub fn with_counts(&self, min: u32, max: u32) -> Self {
        Self { min, max, ..self.clone() }
    }

    /// The same type for any number of elements.
    pub fn any_number(&self) -> Self {
        self.with_counts(0, UNLIMITED)
    }

    /// The type of sets of any number of keys of this type.
    pub fn key_set(&self) -> Self {
        Self { key: self.key.clone(), value: None, min: 0, max: UNLIMITED }
    }

    /// The references in columns of this type: by key, and by value.
    pub fn references(&self) -> impl Iterator<Item = (&str, Strength)> {
        [Some(&self.key), self.value.as_ref()].into_iter().flatten().filter_map(BaseType::reference)
    }

    /// Checks the atoms of `datum` against the constraints other than references.
    ///
    /// # Errors
    /// A constraint violation.
    pub fn check(&self, datum: &Datum) -> Result<(), Error> {
        datum.keys().try_for_each(|key| self.key.check(key))?;
        match &self.value {
            Some(base) => datum.values().try_for_each(|value| base.check(value)),
            None => Ok(()),
        }
    }

    /// Reads a `<type>`.
    ///
    /// # Errors
    /// A syntax error.
    pub fn from_json(json: &Value) -> Result<Self, Error> {
        if json.is_string() {
            return Ok(AtomType::from_json(json)?.into());
        }
        let mut reader = ObjectReader::new(json, "ovsdb type")?;
        let key = BaseType::from_json(reader.required("key")?)?;
        let value = reader.optional("value").map(BaseType::from_json).transpose()?;
        let bad = |reader: &ObjectReader<'_>| reader.error("bad min or max value");
        let min = match reader.optional("min") {
            None => 1,
            Some(min) => json_u32(min).filter(|min| *min <= 1).ok_or_else(|| bad(&reader))?,
        };
        let max = match reader.optional("max") {
            None => 1,
            Some(Value::String(text)) if text == "unlimited" => UNLIMITED,
            Some(max) => json_u32(max)
                .filter(|max| (1..UNLIMITED).contains(max))
                .ok_or_else(|| bad(&reader))?,
        };
        reader.finish()?;
        Ok(Self { key, value, min, max })
    }

    /// The `<type>` in JSON.
    pub fn to_json(&self) -> Value {
        if self.is_scalar() && self.key.constraint.is_none() {
            return self.key.to_json();
        }
        let mut object = Map::new();
        let mut put = |member: &str, value: Value| object.insert(member.into(), value);
        put("key", self.key.to_json());
        if let Some(value) = &self.value {
            put("value", value.to_json());
        }
        if self.min != 1 {
            put("min", json!(self.min));
        }
        if self.max == UNLIMITED {
            put("max", "unlimited".into());
        } else if self.max != 1 {
            put("max", json!(self.max));
        }
        Value::Object(object)
    }
}

impl fmt::Display for ColumnType {
    /// Describes the type in the words of OVSDB's error messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.atom_type.as_str();
        if self.is_scalar() {
            return f.write_str(key);
        }
        f.write_str(if self.value.is_some() { "map" } else { "set" })?;
        match (self.min, self.max) {
            (0, UNLIMITED) => f.write_str(" of")?,
            (min, UNLIMITED) => write!(f, " of {min} or more")?,
            (0, max) => write!(f, " of up to {max}")?,
            (min, max) => write!(f, " of {min} to {max}")?,
        }
        match &self.value {
            None => write!(f, " {key}s"),
            Some(value) => write!(f, " ({key}, {}) pairs", value.atom_type.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_survives_a_round_trip() {
        for json in [
            json!("integer"),
            json!({"key": "string", "min": 0}),
            json!({"key": "uuid", "min": 0, "max": "unlimited"}),
            json!({"key": {"type": "integer", "minInteger": 1, "maxInteger": 9}, "max": 2}),
            json!({"key": {"type": "integer", "minInteger": 1}}),
            json!({"key": {"type": "real", "maxReal": 0.5}}),
            json!({"key": {"type": "string", "minLength": 1}, "value": "boolean"}),
            json!({"key": {"type": "string", "enum": ["set", ["a", "b"]]}, "min": 0}),
            json!({"key": {"type": "string", "enum": "a"}}),
            json!({"key": {"type": "uuid", "refTable": "T"}}),
            json!({"key": "integer", "value": {"type": "uuid", "refTable": "T", "refType": "weak"}}),
        ] {
            assert_eq!(ColumnType::from_json(&json).unwrap().to_json(), json);
        }
    }

    #[test]
    fn defaults_are_left_out() {
        let long = json!({"key": {"type": "uuid", "refTable": "T", "refType": "strong"}, "min": 1,
                          "max": 1});
        let short = json!({"key": {"type": "uuid", "refTable": "T"}});
        assert_eq!(ColumnType::from_json(&long).unwrap().to_json(), short);
        let integer = json!({"key": {"type": "integer"}});
        assert_eq!(ColumnType::from_json(&integer).unwrap().to_json(), json!("integer"));
    }

    #[test]
    fn refuses_impossible_types() {
        let problem = |json: Value| ColumnType::from_json(&json).unwrap_err().details;
        assert_eq!(problem(json!("int")), "\"int\" is not an atomic-type");
        assert_eq!(problem(json!(1)), "Parsing ovsdb type failed: Object expected.");
        assert_eq!(
            problem(json!({})),
            "Parsing ovsdb type failed: Required 'key' member is missing."
        );
        for (min, max) in [(json!(2), json!(3)), (json!(0), json!(0)), (json!(0), json!("many"))] {
            assert_eq!(
                problem(json!({"key": "integer", "min": min, "max": max})),
                "Parsing ovsdb type failed: bad min or max value"
            );
        }
        assert_eq!(
            problem(json!({"key": {"type": "integer", "minInteger": 2, "maxInteger": 1}})),
            "Parsing ovsdb type failed: minInteger exceeds maxInteger"
        );
        assert_eq!(
            problem(json!({"key": {"type": "uuid", "refTable": "T", "refType": "loose"}})),
            "Parsing ovsdb type failed: refType must be \"strong\" or \"weak\" (not \"loose\")"
        );
        assert_eq!(
            problem(json!({"key": {"type": "boolean", "minInteger": 1}})),
            "Parsing ovsdb type failed: Member 'minInteger' is present but not allowed here."
        );
    }
}
