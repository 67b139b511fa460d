//! What tracefs says of the kernel: the fields of its tracepoints, and its functions that can be traced.
//!
//! In: the text of its files. Out: C types, and names.

use weir_event::ctype::{Bits, CType, CTypes, Member, TypeId};

use crate::pattern;

/// A string or an array that lies elsewhere in the record.
const ELSEWHERE: &str = "__data_loc";

/// What a name of a type of the kernel's stands for, where that is known.
pub type Known<'a> = dyn Fn(&str, &mut CTypes) -> Option<TypeId> + 'a;

/// Of lines such as `vfs_read` and `nf_hook [nf_core]` the names that match; those of a module that is asked for as `nf_core:nf_hook`.
pub fn functions(text: &str, module: Option<&str>, pattern: &str) -> Vec<String> {
    let all = text.lines().map(|line| match line.split_once(' ') {
        Some((name, module)) => (name, Some(module.trim_matches(['[', ']']))),
        None => (line, None),
    });
    let of_module = all.filter(|(_, of)| module.is_none_or(|module| *of == Some(module)));
    let matching = of_module.filter(|(name, _)| pattern::matches(pattern, name));
    matching
        .map(|(name, _)| module.map_or_else(|| name.to_owned(), |module| format!("{module}:{name}")))
        .collect()
}

/// The fields that a `format` file of tracefs lists, and how many bytes they have together.
pub fn fields(text: &str, known: &Known<'_>, types: &mut CTypes) -> (Vec<Member>, u32) {
    let (mut members, mut bytes) = (Vec::new(), 0);
    for line in text.lines() {
        let Some(line) = line.trim_start().strip_prefix("field:") else { continue };
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next().unwrap_or_default();
        let mut number = |name: &str| {
            let part = parts.next()?.strip_prefix(name)?.strip_prefix(':')?;
            part.parse::<u32>().ok()
        };
        let (Some(offset), Some(size), Some(sign)) = (number("offset"), number("size"), number("signed"))
        else {
            continue;
        };
        // Of what lies elsewhere the brackets are the type's: `__data_loc char[] name`.
        let declaration = &declaration.replace("[] ", " ");
        let (declaration, elements) = match declaration.rsplit_once('[') {
            Some((before, count)) => (before.trim_end(), Some(count.trim_end_matches(']').trim())),
            None => (declaration.as_str(), None),
        };
        let Some(end) = declaration.rfind([' ', '*']) else { continue };
        let (text, name) = declaration.split_at(end + 1);
        let ty = field_type(text, elements, (size, sign == 1), known, types);
        bytes = bytes.max(offset.saturating_add(size));
        // The lower half of the word says how far it lies from the record's start.
        let bits = text.starts_with(ELSEWHERE).then_some(Bits { shift: 0, width: 16 });
        members.push(Member { name: name.to_owned(), ty, offset, bits });
    }
    (members, bytes)
}

/// The type of a field: `const char *`; of an array that of its elements, and how many they are as C has it.
fn field_type(
    text: &str,
    elements: Option<&str>,
    (size, signed): (u32, bool),
    known: &Known<'_>,
    types: &mut CTypes,
) -> TypeId {
    let char = types.add(CType::Int { bytes: 1, signed: true, is_char: true });
    // bpftrace gives the address of what it is.
    let is_elsewhere = text.starts_with(ELSEWHERE);
    let words = text.trim_start_matches(ELSEWHERE);
    let pointers = words.matches('*').count();
    let named: Vec<&str> = words
        .split([' ', '*'])
        .filter(|word| !matches!(*word, "" | "const" | "volatile" | "__user"))
        .collect();
    let base = |types: &mut CTypes| match named[..] {
        ["char"] => char,
        _ => known(&named.join(" "), types).unwrap_or(CTypes::VOID),
    };
    if pointers > 0 || is_elsewhere {
        let mut id = base(types);
        for _ in 0..pointers.max(1) {
            id = types.add(CType::Pointer(id));
        }
        return match elements.filter(|_| !is_elsewhere) {
            Some(_) => types.add(CType::Array { element: id, count: size / 8 }),
            None => id,
        };
    }
    let int = |bytes: u32, types: &mut CTypes| match bytes {
        1 | 2 | 4 | 8 => types.add(CType::Int { bytes: bytes as u8, signed, is_char: false }),
        _ => types.add(CType::Other { what: format!("`{}`", words.trim()), bytes: Some(bytes) }),
    };
    let Some(count) = elements else { return int(size, types) };
    let (element, bytes) = match named[..] {
        ["char"] => (char, 1),
        _ => {
            let known = base(types);
            let each = types.bytes(known).filter(|bytes| *bytes != 0);
            let bytes = each.or_else(|| size.checked_div(count.parse().unwrap_or(0))).unwrap_or(1);
            (int(bytes, types), bytes)
        }
    };
    types.add(CType::Array { element, count: size / bytes.max(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_format_file() {
        let text = "name: x\nID: 1\nformat:\n\
                    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
                    \tfield:const char * filename;\toffset:8;\tsize:8;\tsigned:0;\n\
                    \tfield:char comm[16];\toffset:16;\tsize:16;\tsigned:0;\n\
                    \tfield:unsigned long args[6];\toffset:32;\tsize:48;\tsigned:0;\n\
                    \tfield:__data_loc char[] cmd;\toffset:80;\tsize:4;\tsigned:0;\n\
                    \tfield:long long left;\toffset:88;\tsize:8;\tsigned:1;\n\
                    \nprint fmt: \"%s\", REC->comm\n";
        let mut types = CTypes::default();
        let (members, bytes) = fields(text, &|_, _| None, &mut types);
        let shown: Vec<String> =
            members.iter().map(|m| format!("{} {} {}", m.offset, types.name(m.ty), m.name)).collect();
        let wanted = [
            "0 uint16 common_type",
            "8 char * filename",
            "16 char[16] comm",
            "32 uint64[6] args",
            "80 char * cmd",
            "88 int64 left",
        ];
        assert_eq!((&shown[..], bytes), (&wanted.map(String::from)[..], 96));
    }

    #[test]
    fn functions_are_listed_with_the_module_that_is_asked_for() {
        let text = "vfs_read\nvfs_write\nnf_hook [nf_core]\nvfs_hook [nf_core]\n";
        assert_eq!(functions(text, None, "vfs_*"), ["vfs_read", "vfs_write", "vfs_hook"]);
        assert_eq!(functions(text, Some("nf_core"), "*_hook"), ["nf_core:nf_hook", "nf_core:vfs_hook"]);
        assert!(functions(text, Some("vfs"), "*").is_empty());
    }
}
