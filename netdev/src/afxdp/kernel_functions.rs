//! Numbers of the kernel's functions that programs may call, from the kernel's type information
//! (`Documentation/bpf/btf.rst`).

use std::sync::OnceLock;

const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// Kinds of types (`BTF_KIND_*`).
const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;

/// The number of the function `name`; none when the kernel has none or does not tell.
pub(super) fn number(name: &str) -> Option<u32> {
    static INFORMATION: OnceLock<Vec<u8>> = OnceLock::new();
    find(INFORMATION.get_or_init(|| std::fs::read(PATH).unwrap_or_default()), name)
}

fn find(information: &[u8], name: &str) -> Option<u32> {
    let half = |bytes: &[u8], at: usize| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let word = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    if half(information, 0)? != MAGIC {
        return None;
    }
    let header_length = word(information, 4)? as usize;
    let section = |at: usize| {
        let (offset, length) =
            (word(information, at)? as usize, word(information, at + 4)? as usize);
        let start = header_length.checked_add(offset)?;
        information.get(start..start.checked_add(length)?)
    };
    let (mut types, names) = (section(8)?, section(16)?);
    // Number 0 is for no type.
    let mut number = 1;
    while let Some((head, rest)) = types.split_at_checked(12) {
        let (name_offset, info) = (word(head, 0)? as usize, word(head, 4)?);
        let (count, kind) = ((info & 0xffff) as usize, info >> 24 & 0x1f);
        let is_named = |name: &str| {
            let text = names.get(name_offset..).unwrap_or_default();
            text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
        };
        if kind == FUNC && is_named(name) {
            return Some(number);
        }
        let more = match kind {
            INT | VAR | DECL_TAG => 4,
            ARRAY => 12,
            STRUCT | UNION | DATASEC | ENUM64 => 12 * count,
            ENUM | FUNC_PROTO => 8 * count,
            _ => 0,
        };
        types = rest.get(more..)?;
        number += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type information with these types: name, kind, count, and bytes behind.
    fn information(types: &[(&str, u32, u32, usize)]) -> Vec<u8> {
        let (mut section, mut names) = (vec![], vec![0]);
        for (name, kind, count, more) in types {
            let head = [names.len() as u32, kind << 24 | count, 0].map(u32::to_ne_bytes).concat();
            section.extend(head);
            section.extend(vec![0xff; *more]);
            names.extend([name.as_bytes(), &[0]].concat());
        }
        let mut all = [&MAGIC.to_ne_bytes()[..], &[1, 0]].concat();
        let (types, text) = (section.len() as u32, names.len() as u32);
        all.extend([24, 0, types, types, text].map(u32::to_ne_bytes).concat());
        [all, section, names].concat()
    }

    #[test]
    fn numbers_types_of_every_kind() {
        let types = [
            ("int", INT, 0, 4),
            ("array", ARRAY, 0, 12),
            ("struct", STRUCT, 2, 24),
            ("enum", ENUM, 3, 24),
            ("proto", FUNC_PROTO, 1, 8),
            ("wanted", 8, 0, 0),
            ("wanted too", FUNC, 1, 0),
            ("section", DATASEC, 1, 12),
            ("big enum", ENUM64, 1, 12),
            ("tag", DECL_TAG, 0, 4),
            ("wanted", FUNC, 1, 0),
        ];
        let information = information(&types);
        assert_eq!(find(&information, "wanted"), Some(11));
        assert_eq!(find(&information, "wanted too"), Some(7));
        assert_eq!(find(&information, "want"), None);
        for end in 0..information.len() {
            // Cut short, it says nothing wrong.
            let found = find(&information[..end], "wanted");
            assert!(found.is_none() || found == Some(11));
        }
        assert_eq!(find(&[], "wanted"), None);
    }
}
