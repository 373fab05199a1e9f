//! Conditions on rows (RFC 7047 section 5.1, `<condition>`).

use serde_json::Value;
use uuid::Uuid;

use super::atom::{Atom, AtomType};
use super::datum::Datum;
use super::error::{Error, ErrorKind};
use super::named_uuid::SymbolTable;
use super::row::{Row, unknown_column};
use super::schema::{ColumnIndex, TableSchema, UUID_COLUMN};

/// How a clause compares a column with its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
    Includes,
    Excludes,
}

impl Function {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            ">=" => Self::GreaterOrEqual,
            ">" => Self::Greater,
            "includes" => Self::Includes,
            "excludes" => Self::Excludes,
            _ => return None,
        })
    }

    fn is_ordering(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual | Self::GreaterOrEqual | Self::Greater)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Clause {
    Constant(bool),
    Compare { column: ColumnIndex, function: Function, argument: Datum },
}

impl Clause {
    fn from_json(
        json: &Value,
        schema: &TableSchema,
        symbols: Option<&mut SymbolTable>,
    ) -> Result<Self, Error> {
        let (name, function, argument) = match json {
            Value::Bool(value) => return Ok(Self::Constant(*value)),
            Value::Array(parts) => match parts.as_slice() {
                [Value::String(name), Value::String(function), argument] => {
                    (name, function, argument)
                }
                _ => return Err(Error::syntax(json, "Parse error in condition.")),
            },
            _ => return Err(Error::syntax(json, "Parse error in condition.")),
        };
        let (index, column) =
            schema.column(name).ok_or_else(|| unknown_column(json, name, schema))?;
        let function_name = function;
        let function = Function::from_name(function_name).ok_or_else(|| {
            Error::new(ErrorKind::UnknownFunction, format!("No function named {function_name}."))
        })?;
        let column_type = &column.column_type;
        let argument_type = match function {
            _ if function.is_ordering() => {
                let number =
                    matches!(column_type.key().atom_type(), AtomType::Integer | AtomType::Real);
                if !number || !(column_type.is_scalar() || column_type.is_optional()) {
                    return Err(Error::syntax(
                        json,
                        format!(
                            "Type mismatch: \"{function_name}\" operator may not be applied to \
                             column {name} of type {column_type}."
                        ),
                    ));
                }
                column_type.with_counts(1, 1)
            }
            Function::Includes if !column_type.is_scalar() => {
                column_type.with_counts(0, column_type.max())
            }
            Function::Excludes if !column_type.is_scalar() => column_type.any_number(),
            _ => column_type.clone(),
        };
        let argument = Datum::from_json(argument, &argument_type, symbols)?;
        Ok(Self::Compare { column: index, function, argument })
    }

    fn is_true_for(&self, row: &Row) -> bool {
        let (value, function, argument) = match self {
            Self::Constant(value) => return *value,
            Self::Compare { column, function, argument } => (&row[*column], function, argument),
        };
        match function {
            Function::Equal => value == argument,
            Function::NotEqual => value != argument,
            Function::Includes => argument.is_included_in(value),
            Function::Excludes => argument.is_disjoint_from(value),
            _ => {
                // An optional column without a value is neither less nor greater.
                let (Some(value), Some(argument)) = (value.as_scalar(), argument.as_scalar())
                else {
                    return false;
                };
                match function {
                    Function::Less => value < argument,
                    Function::LessOrEqual => value <= argument,
                    Function::GreaterOrEqual => value >= argument,
                    _ => value > argument,
                }
            }
        }
    }
}

/// A list of clauses about one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition(Vec<Clause>);

impl Condition {
    /// Reads an array of clauses about rows of a table.
    ///
    /// # Errors
    /// A syntax error, an unknown column or function, or a constraint violation in an argument.
    pub fn from_json(
        clauses: &[Value],
        schema: &TableSchema,
        mut symbols: Option<&mut SymbolTable>,
    ) -> Result<Self, Error> {
        clauses
            .iter()
            .map(|clause| Clause::from_json(clause, schema, symbols.as_deref_mut()))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether every clause is true for the row, as operations ask.
    pub fn all_true_for(&self, row: &Row) -> bool {
        self.0.iter().all(|clause| clause.is_true_for(row))
    }

    /// Whether some clause is true for the row, or there is none, as monitors ask.
    pub fn any_true_for(&self, row: &Row) -> bool {
        self.0.is_empty() || self.0.iter().any(|clause| clause.is_true_for(row))
    }

    /// The argument of a clause that asks for `column` to have exactly one value.
    pub fn equal_to(&self, column: ColumnIndex) -> Option<&Datum> {
        self.0.iter().find_map(|clause| match clause {
            Clause::Compare { column: found, function: Function::Equal, argument }
                if *found == column =>
            {
                Some(argument)
            }
            _ => None,
        })
    }

    /// The row that a clause asks for by its UUID.
    pub fn uuid(&self) -> Option<Uuid> {
        match self.equal_to(UUID_COLUMN)?.as_scalar()? {
            Atom::Uuid(uuid) => Some(*uuid),
            _ => None,
        }
    }
}
