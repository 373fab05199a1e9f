//! Datums: the values of columns, each a set of atoms or a map between atoms.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::atom::Atom;
use super::column_type::ColumnType;
use super::error::{Error, ErrorKind};
use super::named_uuid::SymbolTable;

/// The value of a column: a set (a scalar is a set of one) or a map, sorted and without
/// duplicates. Clones share their content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Datum(Content);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Content {
    Set(Arc<[Atom]>),
    Map(Arc<[(Atom, Atom)]>),
}

/// An atom or a key that occurs more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Duplicate {
    /// In a set.
    #[error("set contains duplicate")]
    Atom,
    /// In a map.
    #[error("map contains duplicate key")]
    Key,
}

impl From<Duplicate> for Error {
    fn from(duplicate: Duplicate) -> Self {
        Self::new(ErrorKind::Other, duplicate.to_string())
    }
}

impl<T: Into<Atom>> From<T> for Datum {
    /// A scalar.
    fn from(value: T) -> Self {
        Self(Content::Set(Arc::new([value.into()])))
    }
}

impl From<BTreeSet<Atom>> for Datum {
    fn from(atoms: BTreeSet<Atom>) -> Self {
        Self::sorted_set(atoms.into_iter().collect())
    }
}

impl From<BTreeMap<Atom, Atom>> for Datum {
    fn from(pairs: BTreeMap<Atom, Atom>) -> Self {
        Self::sorted_map(pairs.into_iter().collect())
    }
}

impl Ord for Datum {
    /// Orders by number of elements first, then by keys, then by values, as OVSDB does.
    fn cmp(&self, other: &Self) -> Ordering {
        self.len()
            .cmp(&other.len())
            .then_with(|| self.keys().cmp(other.keys()))
            .then_with(|| self.values().cmp(other.values()))
    }
}

impl PartialOrd for Datum {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Datum {
    /// The set of no atoms.
    pub fn empty_set() -> Self {
        Self(Content::Set(Arc::default()))
    }

    /// The map of no pairs.
    pub fn empty_map() -> Self {
        Self(Content::Map(Arc::default()))
    }

    /// A set of the given atoms, in any order.
    ///
    /// # Errors
    /// Two of them are equal.
    pub fn set(mut atoms: Vec<Atom>) -> Result<Self, Duplicate> {
        atoms.sort_unstable();
        if atoms.array_windows().any(|[a, b]| a == b) {
            return Err(Duplicate::Atom);
        }
        Ok(Self::sorted_set(atoms))
    }

    /// A map of the given pairs, in any order.
    ///
    /// # Errors
    /// Two of them have the same key.
    pub fn map(mut pairs: Vec<(Atom, Atom)>) -> Result<Self, Duplicate> {
        pairs.sort_unstable();
        if pairs.array_windows().any(|[a, b]| a.0 == b.0) {
            return Err(Duplicate::Key);
        }
        Ok(Self::sorted_map(pairs))
    }

    fn sorted_set(atoms: Vec<Atom>) -> Self {
        if atoms.is_empty() { Self::empty_set() } else { Self(Content::Set(atoms.into())) }
    }

    fn sorted_map(pairs: Vec<(Atom, Atom)>) -> Self {
        if pairs.is_empty() { Self::empty_map() } else { Self(Content::Map(pairs.into())) }
    }

    /// The value that a column of the given type has until it is set.
    pub fn default_of(column_type: &ColumnType) -> Self {
        let key = column_type.key().atom_type();
        match (column_type.min(), column_type.value()) {
            (0, None) => Self::empty_set(),
            (0, Some(_)) => Self::empty_map(),
            (_, None) => Self::sorted_set(vec![key.default_atom()]),
            (_, Some(value)) => {
                Self::sorted_map(vec![(key.default_atom(), value.atom_type().default_atom())])
            }
        }
    }

    /// The atoms of a set, in order; nothing if this is a map.
    pub fn as_set(&self) -> &[Atom] {
        match &self.0 {
            Content::Set(atoms) => atoms,
            Content::Map(_) => &[],
        }
    }

    /// The pairs of a map, in the order of their keys; nothing if this is a set.
    pub fn as_map(&self) -> &[(Atom, Atom)] {
        match &self.0 {
            Content::Set(_) => &[],
            Content::Map(pairs) => pairs,
        }
    }

    /// Whether this is a map.
    pub fn is_map(&self) -> bool {
        matches!(self.0, Content::Map(_))
    }

    /// The only atom of a set; `None` if the set has none or several, or this is a map.
    pub fn as_scalar(&self) -> Option<&Atom> {
        match self.as_set() {
            [atom] => Some(atom),
            _ => None,
        }
    }

    /// The number of atoms or pairs.
    pub fn len(&self) -> usize {
        match &self.0 {
            Content::Set(atoms) => atoms.len(),
            Content::Map(pairs) => pairs.len(),
        }
    }

    /// Whether there is nothing in the set or map.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The atoms of a set, or the keys of a map, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Atom> {
        self.as_set().iter().chain(self.as_map().iter().map(|(key, _)| key))
    }

    /// Every UUID in a set, or in the keys and values of a map.
    pub fn uuids(&self) -> impl Iterator<Item = Uuid> {
        self.as_set()
            .iter()
            .chain(self.as_map().iter().flat_map(|(key, value)| [key, value]))
            .filter_map(Atom::as_uuid)
    }

    /// The values of a map, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &Atom> {
        self.as_map().iter().map(|(_, value)| value)
    }

    /// Whether `atom` is in the set, or is a key of the map.
    pub fn contains_key(&self, atom: &Atom) -> bool {
        match &self.0 {
            Content::Set(atoms) => atoms.binary_search(atom).is_ok(),
            Content::Map(_) => self.get(atom).is_some(),
        }
    }

    /// What `key` maps to.
    pub fn get(&self, key: &Atom) -> Option<&Atom> {
        let pairs = self.as_map();
        let index = pairs.binary_search_by(|(found, _)| found.cmp(key)).ok()?;
        pairs.get(index).map(|(_, value)| value)
    }

    /// Whether every atom, or every pair, of `self` is in `other`.
    pub fn is_included_in(&self, other: &Self) -> bool {
        self.len() <= other.len()
            && self.as_set().iter().all(|atom| other.contains_key(atom))
            && self.as_map().iter().all(|(key, value)| other.get(key) == Some(value))
    }

    /// Whether no atom, or no pair, of `self` is in `other`.
    pub fn is_disjoint_from(&self, other: &Self) -> bool {
        !self.as_set().iter().any(|atom| other.contains_key(atom))
            && !self.as_map().iter().any(|(key, value)| other.get(key) == Some(value))
    }

    /// `self` and what `other` has under keys that `self` does not have.
    pub fn union(&self, other: &Self) -> Self {
        let new = |key: &Atom| !self.contains_key(key);
        match &self.0 {
            Content::Set(atoms) => {
                let mut all = atoms.to_vec();
                all.extend(other.as_set().iter().filter(|atom| new(atom)).cloned());
                all.sort_unstable();
                Self::sorted_set(all)
            }
            Content::Map(pairs) => {
                let mut all = pairs.to_vec();
                all.extend(other.as_map().iter().filter(|(key, _)| new(key)).cloned());
                all.sort_unstable();
                Self::sorted_map(all)
            }
        }
    }

    /// `self` without what is in `other`: the same atoms, the same pairs, or, if `self` is a map
    /// and `other` a set, the pairs with these keys.
    pub fn subtract(&self, other: &Self) -> Self {
        match &self.0 {
            Content::Set(atoms) => Self::sorted_set(
                atoms.iter().filter(|atom| !other.contains_key(atom)).cloned().collect(),
            ),
            Content::Map(pairs) => Self::sorted_map(
                pairs
                    .iter()
                    .filter(|(key, value)| match &other.0 {
                        Content::Set(_) => !other.contains_key(key),
                        Content::Map(_) => other.get(key) != Some(value),
                    })
                    .cloned()
                    .collect(),
            ),
        }
    }

    /// `self` without the atoms or pairs for which `keep`, called with the atom or the key and
    /// value, is false.
    pub fn retain(&self, keep: impl Fn(&Atom, Option<&Atom>) -> bool) -> Self {
        match &self.0 {
            Content::Set(atoms) => {
                Self::sorted_set(atoms.iter().filter(|atom| keep(atom, None)).cloned().collect())
            }
            Content::Map(pairs) => Self::sorted_map(
                pairs.iter().filter(|(key, value)| keep(key, Some(value))).cloned().collect(),
            ),
        }
    }

    /// The difference that turns `self` into `new`, for a column of the given type: where a
    /// column can have several elements the elements that are only in one of the two and the
    /// pairs whose value changed (with the new value), else `new` itself. Applying a difference
    /// is taking the difference again: `a.diff(&a.diff(&b)) == b`.
    pub fn diff(&self, new: &Self, column_type: &ColumnType) -> Self {
        if column_type.max() == 1 {
            return new.clone();
        }
        match &self.0 {
            Content::Set(old) => {
                let mut only = Vec::new();
                merge(
                    old,
                    new.as_set(),
                    |atom| atom,
                    |old, new| match (old, new) {
                        (Some(atom), None) | (None, Some(atom)) => only.push(atom.clone()),
                        _ => {}
                    },
                );
                Self::sorted_set(only)
            }
            Content::Map(old) => {
                let mut changed = Vec::new();
                merge(
                    old,
                    new.as_map(),
                    |(key, _)| key,
                    |old, new| match (old, new) {
                        (Some(pair), None) | (None, Some(pair)) => changed.push(pair.clone()),
                        (Some(old), Some(new)) if old.1 != new.1 => changed.push(new.clone()),
                        _ => {}
                    },
                );
                Self::sorted_map(changed)
            }
        }
    }

    /// Reads a `<value>` of a column of the given type and checks it against the constraints of
    /// the type, other than references. Named UUIDs are accepted if there is a table of them.
    ///
    /// # Errors
    /// A syntax error or a constraint violation.
    pub fn from_json(
        json: &Value,
        column_type: &ColumnType,
        mut symbols: Option<&mut SymbolTable>,
    ) -> Result<Self, Error> {
        let key = column_type.key();
        if let Some(value) = column_type.value() {
            let elements = elements(json, "map", column_type)?
                .ok_or_else(|| Error::syntax(json, "expected [\"map\", <array>]"))?;
            let pairs = elements
                .iter()
                .map(|element| match element.as_array().map(Vec::as_slice) {
                    Some([k, v]) => Ok((
                        Atom::from_json(k, key, symbols.as_deref_mut())?,
                        Atom::from_json(v, value, symbols.as_deref_mut())?,
                    )),
                    _ => Err(Error::syntax(element, "expected 2-element array")),
                })
                .collect::<Result<_, _>>()?;
            return Ok(Self::map(pairs)?);
        }
        let atoms = match elements(json, "set", column_type)? {
            None => vec![Atom::from_json(json, key, symbols)?],
            Some(elements) => elements
                .iter()
                .map(|element| Atom::from_json(element, key, symbols.as_deref_mut()))
                .collect::<Result<_, _>>()?,
        };
        Ok(Self::set(atoms)?)
    }

    /// The `<value>` in JSON.
    pub fn to_json(&self) -> Value {
        match &self.0 {
            Content::Map(pairs) => {
                let pair = |(key, value): &(Atom, Atom)| vec![key.to_json(), value.to_json()];
                tagged("map", pairs.iter().map(pair).collect())
            }
            Content::Set(atoms) => match &**atoms {
                [atom] => atom.to_json(),
                atoms => tagged("set", atoms.iter().map(Atom::to_json).collect()),
            },
        }
    }
}

/// `["tag", [...]]`.
fn tagged(tag: &str, elements: Value) -> Value {
    vec![tag.into(), elements].into()
}

/// The elements of `["tag", [...]]`, of which there must be as many as the type allows; `None`
/// if `json` does not start with the tag.
fn elements<'a>(
    json: &'a Value,
    tag: &str,
    column_type: &ColumnType,
) -> Result<Option<&'a [Value]>, Error> {
    let array = json.as_array().map(Vec::as_slice).unwrap_or_default();
    if array.first().and_then(Value::as_str) != Some(tag) {
        return Ok(None);
    }
    let [_, Value::Array(elements)] = array else {
        return Err(Error::syntax(json, format!("expected [\"{tag}\", <array>]")));
    };
    let (min, max, count) = (column_type.min(), column_type.max(), elements.len());
    if (min as usize..=max as usize).contains(&count) {
        Ok(Some(elements))
    } else if (min, max) == (1, 1) {
        let problem = format!("{tag} must have exactly one member but {count} are present");
        Err(Error::syntax(json, problem))
    } else {
        let problem = format!("{tag} must have {min} to {max} members but {count} are present");
        Err(Error::syntax(json, problem))
    }
}

/// Walks two sorted slices together and calls `visit` once for each key, with the elements
/// that have it.
fn merge<'a, T>(
    mut old: &'a [T],
    mut new: &'a [T],
    key: impl Fn(&T) -> &Atom,
    mut visit: impl FnMut(Option<&'a T>, Option<&'a T>),
) {
    loop {
        let order = match (old.first(), new.first()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => key(a).cmp(key(b)),
        };
        let take_old = if order.is_le() { old.split_off_first() } else { None };
        let take_new = if order.is_ge() { new.split_off_first() } else { None };
        visit(take_old, take_new);
    }
}

impl fmt::Display for Datum {
    /// Writes the datum as `ovs-vsctl` shows it, a set of one as its atom.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Content::Set(atoms) => {
                if let [atom] = &**atoms {
                    return write!(f, "{atom}");
                }
                f.write_str("[")?;
                for (index, atom) in atoms.iter().enumerate() {
                    write!(f, "{}{atom}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Content::Map(pairs) => {
                f.write_str("{")?;
                for (index, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key}={value}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::ovsdb::atom::AtomType;

    fn column_type(json: Value) -> ColumnType {
        ColumnType::from_json(&json).unwrap()
    }

    fn integers(json: Value) -> Result<Datum, String> {
        let set = column_type(json!({"key": "integer", "min": 0, "max": 3}));
        Datum::from_json(&json, &set, None).map_err(|error| error.details)
    }

    #[test]
    fn reads_sets() {
        assert_eq!(
            integers(json!(["set", [3, 1, 2]])).unwrap().to_json(),
            json!(["set", [1, 2, 3]])
        );
        assert_eq!(integers(json!(7)).unwrap().to_json(), json!(7));
        assert_eq!(integers(json!(["set", [7]])).unwrap().to_json(), json!(7));
        assert_eq!(integers(json!(["set", []])).unwrap(), Datum::empty_set());
        assert_eq!(integers(json!(["set", [1, 1]])), Err("set contains duplicate".into()));
        assert_eq!(
            integers(json!(["set", [1, 2, 3, 4]])),
            Err("set must have 0 to 3 members but 4 are present".into())
        );
        assert_eq!(integers(json!(["set", 1])), Err("expected [\"set\", <array>]".into()));
        assert_eq!(integers(json!(["set", ["x"]])), Err("expected integer".into()));
        assert_eq!(
            Datum::from_json(&json!(["set", []]), &AtomType::Integer.into(), None)
                .unwrap_err()
                .details,
            "set must have exactly one member but 0 are present"
        );
    }

    #[test]
    fn reads_maps() {
        let map = column_type(json!({"key": "string", "value": "integer", "min": 0, "max": 9}));
        let read = |json: Value| {
            Datum::from_json(&json, &map, None)
                .map(|datum| datum.to_json())
                .map_err(|error| error.details)
        };
        assert_eq!(
            read(json!(["map", [["b", 1], ["a", 2]]])),
            Ok(json!(["map", [["a", 2], ["b", 1]]]))
        );
        assert_eq!(read(json!(["map", []])), Ok(json!(["map", []])));
        assert_eq!(
            read(json!(["map", [["a", 1], ["a", 2]]])),
            Err("map contains duplicate key".into())
        );
        assert_eq!(read(json!(["map", [["a"]]])), Err("expected 2-element array".into()));
        assert_eq!(read(json!({"a": 1})), Err("expected [\"map\", <array>]".into()));
        assert_eq!(read(json!(["set", []])), Err("expected [\"map\", <array>]".into()));
    }

    #[test]
    fn defaults_follow_the_type() {
        let default = |json: Value| Datum::default_of(&column_type(json)).to_json();
        assert_eq!(default(json!("integer")), json!(0));
        assert_eq!(default(json!("string")), json!(""));
        assert_eq!(default(json!("boolean")), json!(false));
        assert_eq!(default(json!({"key": "real", "min": 0})), json!(["set", []]));
        assert_eq!(default(json!("uuid")), json!(["uuid", "00000000-0000-0000-0000-000000000000"]));
        assert_eq!(default(json!({"key": "string", "value": "real"})), json!(["map", [["", 0]]]));
        assert_eq!(
            default(json!({"key": "string", "value": "real", "min": 0, "max": "unlimited"})),
            json!(["map", []])
        );
    }

    #[test]
    fn a_difference_of_one_element_is_the_new_value() {
        let optional = column_type(json!({"key": "integer", "min": 0}));
        let (one, none) = (Datum::from(1), Datum::empty_set());
        assert_eq!(one.diff(&none, &optional), none);
        assert_eq!(none.diff(&one, &optional), one);
    }

    #[test]
    fn is_shown_as_ovs_vsctl_does() {
        assert_eq!(Datum::empty_set().to_string(), "[]");
        assert_eq!(Datum::from(1).to_string(), "1");
        assert_eq!(integers(json!(["set", [1, 2]])).unwrap().to_string(), "[1, 2]");
        let map = Datum::map(vec![("b".into(), "x y".into()), ("a".into(), true.into())]);
        assert_eq!(map.unwrap().to_string(), "{a=true, b=\"x y\"}");
    }

    type Set = BTreeSet<i64>;
    type Map = BTreeMap<i64, i64>;

    fn set(atoms: &Set) -> Datum {
        Datum::set(atoms.iter().rev().map(|atom| Atom::Integer(*atom)).collect()).unwrap()
    }

    fn map(pairs: &Map) -> Datum {
        let atom = |value: &i64| Atom::Integer(*value);
        Datum::map(pairs.iter().rev().map(|(k, v)| (atom(k), atom(v))).collect()).unwrap()
    }

    fn any_set() -> impl Strategy<Value = Set> {
        proptest::collection::btree_set(0_i64..20, 0..12)
    }

    fn any_map() -> impl Strategy<Value = Map> {
        proptest::collection::btree_map(0_i64..12, 0_i64..3, 0..12)
    }

    proptest! {
        #[test]
        fn set_operations_equal_those_of_btree_set(a in any_set(), b in any_set()) {
            let integers = column_type(json!({"key": "integer", "min": 0, "max": "unlimited"}));
            let (da, db) = (set(&a), set(&b));
            prop_assert_eq!(da.union(&db), set(&(&a | &b)));
            prop_assert_eq!(da.subtract(&db), set(&(&a - &b)));
            prop_assert_eq!(da.is_included_in(&db), a.is_subset(&b));
            prop_assert_eq!(da.is_disjoint_from(&db), a.is_disjoint(&b));
            let diff = da.diff(&db, &integers);
            prop_assert_eq!(&diff, &set(&(&a ^ &b)));
            prop_assert_eq!(da.diff(&diff, &integers), db);
        }

        #[test]
        fn map_operations_equal_those_of_btree_map(a in any_map(), b in any_map()) {
            let pairs = column_type(
                json!({"key": "integer", "value": "integer", "min": 0, "max": "unlimited"}),
            );
            let (da, db) = (map(&a), map(&b));
            let mut union = b.clone();
            union.extend(a.clone());
            prop_assert_eq!(da.union(&db), map(&union));
            let without: Map =
                a.clone().into_iter().filter(|(k, v)| b.get(k) != Some(v)).collect();
            prop_assert_eq!(da.subtract(&db), map(&without));
            let keys: Set = b.keys().copied().collect();
            let other_keys: Map =
                a.clone().into_iter().filter(|(k, _)| !keys.contains(k)).collect();
            prop_assert_eq!(da.subtract(&set(&keys)), map(&other_keys));
            prop_assert_eq!(da.is_included_in(&db), without.is_empty());
            prop_assert_eq!(da.is_disjoint_from(&db), without.len() == a.len());
            prop_assert_eq!(da.diff(&da.diff(&db, &pairs), &pairs), db);
        }
    }
}
