//! Atoms: the single values that columns are made of.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::column_type::{BaseType, Constraint};
use super::error::{Error, ErrorKind};
use super::named_uuid::SymbolTable;
use super::object::is_id;

/// The type of an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomType {
    /// A 64-bit signed integer.
    Integer,
    /// A double.
    Real,
    /// True or false.
    Boolean,
    /// UTF-8 text without NUL.
    String,
    /// A UUID.
    Uuid,
}

impl AtomType {
    /// Its name in a schema.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Uuid => "uuid",
        }
    }

    /// The value that a column of this type has until it is set.
    pub fn default_atom(self) -> Atom {
        match self {
            Self::Integer => Atom::Integer(0),
            Self::Real => Atom::Real(Real(0.0)),
            Self::Boolean => Atom::Boolean(false),
            Self::String => Atom::from(""),
            Self::Uuid => Atom::Uuid(Uuid::nil()),
        }
    }

    /// Reads an `<atomic-type>`.
    ///
    /// # Errors
    /// `json` does not name a type.
    pub fn from_json(json: &Value) -> Result<Self, Error> {
        let name = json.as_str().ok_or_else(|| Error::syntax(json, "atomic-type expected"))?;
        [Self::Integer, Self::Real, Self::Boolean, Self::String, Self::Uuid]
            .into_iter()
            .find(|atom_type| atom_type.as_str() == name)
            .ok_or_else(|| Error::syntax(json, format!("\"{name}\" is not an atomic-type")))
    }
}

/// A finite number that is not negative zero, and so has a total order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Real(f64);

impl Real {
    /// The least real.
    pub const MIN: Self = Self(f64::MIN);
    /// The greatest real.
    pub const MAX: Self = Self(f64::MAX);

    /// `value` as a real; `None` if it is infinite or not a number.
    pub fn new(value: f64) -> Option<Self> {
        // Adding zero turns negative zero into zero.
        value.is_finite().then_some(Self(value + 0.0))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Eq for Real {}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Real {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl fmt::Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::hash::Hash for Real {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// A single value. Atoms of one type are ordered as OVSDB sorts sets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// A 64-bit signed integer.
    Integer(i64),
    /// A double.
    Real(Real),
    /// True or false.
    Boolean(bool),
    /// Text.
    String(Arc<str>),
    /// A UUID.
    Uuid(Uuid),
}

impl From<i64> for Atom {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<bool> for Atom {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<&str> for Atom {
    fn from(value: &str) -> Self {
        Self::String(value.into())
    }
}

impl From<Uuid> for Atom {
    fn from(value: Uuid) -> Self {
        Self::Uuid(value)
    }
}

/// The integer that a JSON number stands for; like OVSDB, 1.0 and 1e3 are integers.
pub fn json_integer(json: &Value) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    json.as_i64().or_else(|| {
        let real = json.as_f64()?;
        // The limit, 2^63, is the first real that an i64 cannot hold.
        (real.trunc() == real && (-LIMIT..LIMIT).contains(&real)).then_some(real as i64)
    })
}

/// A UUID in the one notation that OVSDB has: 36 characters with hyphens.
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    // The crate also knows braces, URNs and plain digits; none of these is 36 characters long.
    (text.len() == 36).then(|| Uuid::try_parse(text).ok()).flatten()
}

/// `["tag", "text"]` taken apart.
fn tagged_text<'a>(json: &'a Value, tag: &str) -> Option<&'a str> {
    match json.as_array()?.as_slice() {
        [Value::String(found), Value::String(text)] if found == tag => Some(text),
        _ => None,
    }
}

fn uuid_from_json(json: &Value, symbols: Option<&mut SymbolTable>) -> Result<Uuid, Error> {
    if let Some(text) = tagged_text(json, "uuid") {
        return parse_uuid(text)
            .ok_or_else(|| Error::syntax(json, format!("\"{text}\" is not a valid UUID")));
    }
    if let Some(symbols) = symbols
        && let Some(name) = tagged_text(json, "named-uuid")
    {
        if !is_id(name) {
            return Err(Error::syntax(json, "named-uuid string is not a valid <id>"));
        }
        return Ok(symbols.get_or_insert(name).uuid);
    }
    Err(Error::syntax(json, "expected [\"uuid\", <string>]"))
}

impl Atom {
    /// The type of this atom.
    pub fn atom_type(&self) -> AtomType {
        match self {
            Self::Integer(_) => AtomType::Integer,
            Self::Real(_) => AtomType::Real,
            Self::Boolean(_) => AtomType::Boolean,
            Self::String(_) => AtomType::String,
            Self::Uuid(_) => AtomType::Uuid,
        }
    }

    /// The UUID, if this is one.
    pub fn as_uuid(&self) -> Option<Uuid> {
        match self {
            Self::Uuid(uuid) => Some(*uuid),
            _ => None,
        }
    }

    /// Reads an `<atom>` of type `base` and checks it against the constraints of `base`, other
    /// than references. Named UUIDs are accepted if there is a table of them.
    ///
    /// # Errors
    /// A syntax error or a constraint violation.
    pub fn from_json(
        json: &Value,
        base: &BaseType,
        symbols: Option<&mut SymbolTable>,
    ) -> Result<Self, Error> {
        let atom_type = base.atom_type();
        let atom = match (atom_type, json) {
            (AtomType::Uuid, _) => Some(Self::Uuid(uuid_from_json(json, symbols)?)),
            (AtomType::Integer, Value::Number(_)) => json_integer(json).map(Self::Integer),
            (AtomType::Real, Value::Number(number)) => {
                number.as_f64().and_then(Real::new).map(Self::Real)
            }
            (AtomType::Boolean, Value::Bool(value)) => Some(Self::Boolean(*value)),
            (AtomType::String, Value::String(text)) if text.contains('\0') => {
                return Err(Error::syntax(json, "null characters are not allowed in strings"));
            }
            (AtomType::String, Value::String(text)) => Some(Self::from(text.as_str())),
            _ => None,
        };
        let atom =
            atom.ok_or_else(|| Error::syntax(json, format!("expected {}", atom_type.as_str())))?;
        base.check(&atom)?;
        Ok(atom)
    }

    /// The `<atom>` in JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Integer(value) => json!(value),
            Self::Real(real) => {
                // Whole numbers go without ".0", as OVSDB writes them.
                let value = real.get();
                if value.trunc() == value && value.abs() < 1e15 {
                    json!(value as i64)
                } else {
                    json!(value)
                }
            }
            Self::Boolean(value) => json!(value),
            Self::String(text) => json!(&**text),
            Self::Uuid(uuid) => vec!["uuid".to_owned(), uuid.to_string()].into(),
        }
    }
}

/// Whether OVSDB writes `text` in quotes where it shows values.
fn needs_quotes(text: &str) -> bool {
    let mut bytes = text.bytes();
    let plain = bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    !plain || text == "true" || text == "false" || parse_uuid(text).is_some()
}

impl fmt::Display for Atom {
    /// Writes the atom as `ovs-vsctl` shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Real(real) => write!(f, "{real}"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::String(text) if needs_quotes(text) => write!(f, "{}", json!(&**text)),
            Self::String(text) => f.write_str(text),
            Self::Uuid(uuid) => write!(f, "{uuid}"),
        }
    }
}

impl BaseType {
    /// Checks `atom` against the constraints other than references, which are for the end of a
    /// transaction.
    ///
    /// # Errors
    /// A constraint violation.
    pub fn check(&self, atom: &Atom) -> Result<(), Error> {
        let problem = match (self.constraint(), atom) {
            (Some(Constraint::Enum(allowed)), _) if !allowed.contains(atom) => {
                let allowed: Vec<_> = allowed.iter().map(Atom::to_string).collect();
                let allowed = allowed.join(", ");
                format!("{atom} is not one of the allowed values ([{allowed}])")
            }
            (Some(Constraint::Integer { min, max }), Atom::Integer(value)) => {
                match range_problem(value, min, max, &i64::MIN, &i64::MAX) {
                    Some(problem) => problem,
                    None => return Ok(()),
                }
            }
            (Some(Constraint::Real { min, max }), Atom::Real(value)) => {
                match range_problem(value, min, max, &Real::MIN, &Real::MAX) {
                    Some(problem) => problem,
                    None => return Ok(()),
                }
            }
            (Some(Constraint::Length { min, max }), Atom::String(text)) => {
                let length = text.chars().count();
                if length < *min as usize {
                    format!("\"{text}\" length {length} is less than minimum allowed length {min}")
                } else if length > *max as usize {
                    format!(
                        "\"{text}\" length {length} is greater than maximum allowed length {max}"
                    )
                } else {
                    return Ok(());
                }
            }
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::ConstraintViolation, problem))
    }
}

/// What is wrong with `value` for the range `min..=max` within `lowest..=highest`.
fn range_problem<T: PartialOrd + fmt::Display>(
    value: &T,
    min: &T,
    max: &T,
    lowest: &T,
    highest: &T,
) -> Option<String> {
    if (min..=max).contains(&value) {
        None
    } else if min == lowest {
        Some(format!("{value} is greater than maximum allowed value {max}"))
    } else if max == highest {
        Some(format!("{value} is less than minimum allowed value {min}"))
    } else {
        Some(format!("{value} is not in the valid range {min} to {max} (inclusive)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(json: Value) -> BaseType {
        BaseType::from_json(&json).unwrap()
    }

    fn parse(json: Value, base_type: Value) -> Result<Atom, String> {
        Atom::from_json(&json, &base(base_type), None).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_what_json_numbers_stand_for() {
        assert_eq!(parse(json!(1), json!("integer")), Ok(Atom::Integer(1)));
        assert_eq!(parse(json!(-3.0), json!("integer")), Ok(Atom::Integer(-3)));
        assert_eq!(parse(json!(i64::MIN), json!("integer")), Ok(Atom::Integer(i64::MIN)));
        for wrong in [json!(1.5), json!(9_223_372_036_854_775_808_u64), json!(1e300)] {
            assert_eq!(
                parse(wrong.clone(), json!("integer")),
                Err(format!("syntax \"{wrong}\": syntax error: expected integer"))
            );
        }
        let negative_zero = parse(json!(-0.0), json!("real")).unwrap();
        assert_eq!(negative_zero, Atom::Real(Real::new(0.0).unwrap()));
        assert_eq!(negative_zero.to_json(), json!(0));
        assert_eq!(parse(json!(5), json!("real")).unwrap().to_json(), json!(5));
        assert_eq!(parse(json!(0.1), json!("real")).unwrap().to_json(), json!(0.1));
        assert_eq!(parse(json!(1e300), json!("real")).unwrap().to_json(), json!(1e300));
    }

    #[test]
    fn refuses_other_types() {
        let error = |json: Value, name: &str| {
            Err(format!("syntax \"{json}\": syntax error: expected {name}"))
        };
        assert_eq!(parse(json!("x"), json!("integer")), error(json!("x"), "integer"));
        assert_eq!(parse(json!(true), json!("real")), error(json!(true), "real"));
        assert_eq!(parse(json!(0), json!("boolean")), error(json!(0), "boolean"));
        assert_eq!(parse(json!(null), json!("string")), error(json!(null), "string"));
        assert_eq!(
            parse(json!("a\0b"), json!("string")),
            Err("syntax \"\"a\\u0000b\"\": syntax error: \
                 null characters are not allowed in strings"
                .into())
        );
    }

    #[test]
    fn reads_uuids() {
        let text = "550e8400-e29b-41d4-a716-446655440000";
        let atom = parse(json!(["uuid", text]), json!("uuid")).unwrap();
        assert_eq!(atom.to_json(), json!(["uuid", text]));
        for wrong in ["550e8400e29b41d4a716446655440000", "{550e8400-e29b-41d4-a716-446655440000}"]
        {
            assert_eq!(
                parse(json!(["uuid", wrong]), json!("uuid")),
                Err(format!(
                    "syntax \"[\"uuid\",\"{wrong}\"]\": syntax error: \
                     \"{wrong}\" is not a valid UUID"
                ))
            );
        }
        assert_eq!(
            parse(json!(["named-uuid", "x"]), json!("uuid")),
            Err("syntax \"[\"named-uuid\",\"x\"]\": syntax error: expected [\"uuid\", <string>]"
                .into())
        );
    }

    #[test]
    fn names_stand_for_uuids() {
        let mut symbols = SymbolTable::default();
        let mut read = |name: &str| {
            let json = json!(["named-uuid", name]);
            Atom::from_json(&json, &AtomType::Uuid.into(), Some(&mut symbols))
        };
        let a = read("a").unwrap();
        assert_eq!(read("a").unwrap(), a);
        assert_ne!(read("b").unwrap(), a);
        assert_eq!(
            read("0a").unwrap_err().to_string(),
            "syntax \"[\"named-uuid\",\"0a\"]\": syntax error: \
             named-uuid string is not a valid <id>"
        );
    }

    #[test]
    fn checks_constraints() {
        let check = |json: Value, base_type: Value| {
            parse(json, base_type).err().unwrap_or_default().replace("constraint violation: ", "")
        };
        let range = json!({"type": "integer", "minInteger": 0, "maxInteger": 4095});
        assert_eq!(check(json!(4095), range.clone()), "");
        assert_eq!(
            check(json!(4096), range),
            "4096 is not in the valid range 0 to 4095 (inclusive)"
        );
        assert_eq!(
            check(json!(-1), json!({"type": "integer", "minInteger": 0})),
            "-1 is less than minimum allowed value 0"
        );
        assert_eq!(
            check(json!(1.5), json!({"type": "real", "maxReal": 1})),
            "1.5 is greater than maximum allowed value 1"
        );
        let length = json!({"type": "string", "minLength": 2, "maxLength": 3});
        assert_eq!(check(json!("äöü"), length.clone()), "");
        assert_eq!(
            check(json!("a"), length.clone()),
            "\"a\" length 1 is less than minimum allowed length 2"
        );
        assert_eq!(
            check(json!("abcd"), length),
            "\"abcd\" length 4 is greater than maximum allowed length 3"
        );
        let colours = json!({"type": "string", "enum": ["set", ["red", "dark blue"]]});
        assert_eq!(check(json!("red"), colours.clone()), "");
        assert_eq!(
            check(json!("green"), colours),
            "green is not one of the allowed values ([\"dark blue\", red])"
        );
    }

    #[test]
    fn shows_strings_in_quotes_where_they_could_be_mistaken() {
        let shown = |text: &str| Atom::from(text).to_string();
        assert_eq!(shown("br-int_0.5"), "br-int_0.5");
        for text in ["", "0", "true", "a b", "550e8400-e29b-41d4-a716-446655440000"] {
            assert_eq!(shown(text), format!("\"{text}\""));
        }
        assert_eq!(shown("a\"b"), "\"a\\\"b\"");
    }
}
