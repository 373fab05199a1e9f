//! Mutations of columns (RFC 7047 section 5.1, `<mutation>`).

use serde_json::Value;

use super::atom::{Atom, AtomType, Real};
use super::column_type::ColumnType;
use super::datum::Datum;
use super::error::{Error, ErrorKind};
use super::named_uuid::SymbolTable;
use super::row::{Row, unknown_column};
use super::schema::{ColumnIndex, ColumnSchema, TableSchema};

/// What a mutation does to a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Insert,
    Delete,
}

impl Mutator {
    const ALL: [Self; 7] = [
        Self::Add,
        Self::Subtract,
        Self::Multiply,
        Self::Divide,
        Self::Remainder,
        Self::Insert,
        Self::Delete,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Add => "+=",
            Self::Subtract => "-=",
            Self::Multiply => "*=",
            Self::Divide => "/=",
            Self::Remainder => "%=",
            Self::Insert => "insert",
            Self::Delete => "delete",
        }
    }

    fn out_of_range(self) -> Error {
        let problem = format!("Result of \"{}\" operation is out of range.", self.as_str());
        Error::new(ErrorKind::Range, problem)
    }

    fn integer(self, x: i64, y: i64) -> Result<i64, Error> {
        if y == 0 && matches!(self, Self::Divide | Self::Remainder) {
            return Err(Error::new(ErrorKind::Domain, "Division by zero."));
        }
        match self {
            Self::Add => x.checked_add(y),
            Self::Subtract => x.checked_sub(y),
            Self::Multiply => x.checked_mul(y),
            Self::Divide => x.checked_div(y),
            _ => x.checked_rem(y),
        }
        .ok_or_else(|| self.out_of_range())
    }

    fn real(self, x: Real, y: Real) -> Result<Real, Error> {
        let (x, y) = (x.get(), y.get());
        if y == 0.0 && self == Self::Divide {
            return Err(Error::new(ErrorKind::Domain, "Division by zero."));
        }
        let result = match self {
            Self::Add => x + y,
            Self::Subtract => x - y,
            Self::Multiply => x * y,
            _ => x / y,
        };
        Real::new(result).ok_or_else(|| self.out_of_range())
    }

    fn atom(self, x: &Atom, y: &Atom) -> Result<Atom, Error> {
        match (x, y) {
            (Atom::Integer(x), Atom::Integer(y)) => self.integer(*x, *y).map(Atom::Integer),
            (Atom::Real(x), Atom::Real(y)) => self.real(*x, *y).map(Atom::Real),
            _ => Err(Error::new(ErrorKind::Other, "Operation not supported.")),
        }
    }
}

/// A change of one column.
#[derive(Clone, Debug)]
pub struct Mutation {
    column: ColumnIndex,
    mutator: Mutator,
    argument: Datum,
}

impl Mutation {
    /// Reads a mutation of rows of a table.
    ///
    /// # Errors
    /// A syntax error, an unknown column or mutator, or a constraint violation.
    pub fn from_json(
        json: &Value,
        schema: &TableSchema,
        mut symbols: Option<&mut SymbolTable>,
    ) -> Result<Self, Error> {
        let parts = json.as_array().map(Vec::as_slice).unwrap_or_default();
        let [Value::String(name), Value::String(mutator), argument] = parts else {
            return Err(Error::syntax(json, "Parse error in mutation."));
        };
        let (index, column) =
            schema.column(name).ok_or_else(|| unknown_column(json, name, schema))?;
        if !column.mutable {
            let problem =
                format!("Cannot mutate immutable column {name} in table {}.", schema.name());
            return Err(Error::in_json(ErrorKind::ConstraintViolation, json, problem));
        }
        let mutator =
            Mutator::ALL.into_iter().find(|known| known.as_str() == mutator).ok_or_else(|| {
                Error::new(ErrorKind::UnknownMutator, format!("No mutator named {mutator}."))
            })?;
        let column_type = &column.column_type;
        if !is_applicable(mutator, column_type) {
            return Err(Error::syntax(
                json,
                format!(
                    "Type mismatch: \"{}\" operator may not be applied to column {name} of type \
                     {column_type}.",
                    mutator.as_str()
                ),
            ));
        }
        let argument = match mutator {
            Mutator::Insert => {
                let argument_type = column_type.with_counts(0, column_type.max());
                Datum::from_json(argument, &argument_type, symbols)
            }
            Mutator::Delete => {
                let pairs =
                    Datum::from_json(argument, &column_type.any_number(), symbols.as_deref_mut());
                if pairs.is_err() && column_type.value().is_some() {
                    // Pairs of a map can also be deleted by a set of keys.
                    Datum::from_json(argument, &column_type.key_set(), symbols)
                } else {
                    pairs
                }
            }
            _ => Datum::from_json(argument, &column_type.key().atom_type().into(), symbols),
        }?;
        Ok(Self { column: index, mutator, argument })
    }

    /// Changes the column of `row`, a row of the table with the given schema.
    ///
    /// # Errors
    /// A domain or range error, or a constraint violation.
    pub fn apply(&self, row: &mut Row, schema: &TableSchema) -> Result<(), Error> {
        let old = &row[self.column];
        let new = match self.mutator {
            Mutator::Insert => old.union(&self.argument),
            Mutator::Delete => old.subtract(&self.argument),
            _ => self.compute(old)?,
        };
        if let Some(ColumnSchema { column_type, .. }) = schema.columns().get(self.column) {
            column_type.check(&new)?;
            let allowed = column_type.min() as usize..=column_type.max() as usize;
            if !allowed.contains(&new.len()) {
                let problem =
                    format!("Attempted to store {} elements in {column_type}.", new.len());
                return Err(Error::new(ErrorKind::ConstraintViolation, problem));
            }
        }
        row.set(self.column, new);
        Ok(())
    }

    fn compute(&self, old: &Datum) -> Result<Datum, Error> {
        let Some(argument) = self.argument.as_scalar() else { return Ok(old.clone()) };
        let atoms = old
            .as_set()
            .iter()
            .map(|atom| self.mutator.atom(atom, argument))
            .collect::<Result<_, _>>()?;
        Datum::set(atoms).map_err(|_| {
            let mutator = self.mutator.as_str();
            let problem = format!("Result of \"{mutator}\" operation contains duplicates.");
            Error::new(ErrorKind::ConstraintViolation, problem)
        })
    }
}

fn is_applicable(mutator: Mutator, column_type: &ColumnType) -> bool {
    match mutator {
        Mutator::Insert | Mutator::Delete => !column_type.is_scalar(),
        _ => {
            column_type.value().is_none()
                && match column_type.key().atom_type() {
                    AtomType::Integer => true,
                    AtomType::Real => mutator != Mutator::Remainder,
                    _ => false,
                }
        }
    }
}
