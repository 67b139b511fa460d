//! The types of expressions, and the rules that the check and the lowering share.
//!
//! Every integer has 64 bits and a sign. Signedness follows bpftrace 0.23: an operation is signed if both sides
//! are. Division, remainder, comparison, `min`, `max` and printing depend on it. Different from bpftrace: signed
//! division and remainder are signed (bpftrace divides unsigned and warns that the result is undefined).
//! `>>` moves in zeros for both signs, as in bpftrace.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_event::ctype::CTypes;
use weir_event::{MapValue, Type, Word};
use weir_ir::{BinOp, CmpOp};

use crate::ast::{BinaryOp, TypeBase, TypeName};
use crate::limits;

/// What the check knows of an expression.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Ty {
    /// Not known yet (a map that is assigned further down), or faulty and reported: fits everything.
    Unknown,
    /// A call that gives no value, such as `printf`.
    None,
    Value(Type),
}

/// What `typeinfo` says of a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TypeInfo {
    /// The kind: `int`, `pointer`.
    pub(crate) base: &'static str,
    /// All of it: `struct request *`.
    pub(crate) full: String,
}

impl TypeInfo {
    /// The names of its parts; the first is 0.
    pub(crate) const PARTS: [&str; 3] = ["btf_id", "base_type", "full_type"];

    /// A part that is a text.
    pub(crate) fn part(&self, name: &str) -> Option<&str> {
        match name {
            "base_type" => Some(self.base),
            "full_type" => Some(&self.full),
            _ => None,
        }
    }
}

/// How an IR operation is spelled for a pair of integers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum IntOp {
    Bin(BinOp),
    Cmp(CmpOp),
}

/// The operation for `op` on integers of these signs, and the sign of the result.
pub(crate) fn int_op(op: BinaryOp, left_signed: bool, right_signed: bool) -> (IntOp, bool) {
    let signed = left_signed && right_signed;
    let by_sign = |s: CmpOp, u: CmpOp| (IntOp::Cmp(if signed { s } else { u }), true);
    match op {
        BinaryOp::Add => (IntOp::Bin(BinOp::Add), signed),
        BinaryOp::Sub => (IntOp::Bin(BinOp::Sub), signed),
        BinaryOp::Mul => (IntOp::Bin(BinOp::Mul), signed),
        BinaryOp::Div => (IntOp::Bin(if signed { BinOp::SDiv } else { BinOp::UDiv }), signed),
        BinaryOp::Mod => (IntOp::Bin(if signed { BinOp::SMod } else { BinOp::UMod }), signed),
        BinaryOp::BitAnd => (IntOp::Bin(BinOp::And), signed),
        BinaryOp::BitOr => (IntOp::Bin(BinOp::Or), signed),
        BinaryOp::BitXor => (IntOp::Bin(BinOp::Xor), signed),
        BinaryOp::Shl => (IntOp::Bin(BinOp::Shl), left_signed),
        BinaryOp::Shr => (IntOp::Bin(BinOp::LShr), left_signed),
        BinaryOp::Eq => (IntOp::Cmp(CmpOp::Eq), true),
        BinaryOp::Ne => (IntOp::Cmp(CmpOp::Ne), true),
        BinaryOp::Lt => by_sign(CmpOp::SLt, CmpOp::ULt),
        BinaryOp::Le => by_sign(CmpOp::SLe, CmpOp::ULe),
        BinaryOp::Gt => by_sign(CmpOp::SGt, CmpOp::UGt),
        BinaryOp::Ge => by_sign(CmpOp::SGe, CmpOp::UGe),
        BinaryOp::LogicalAnd | BinaryOp::LogicalOr => unreachable!("&& and || are control flow"),
    }
}

/// Of a number, and of what is as large.
pub(crate) const NUMBER_BYTES: u32 = 8;

/// `true` or `false`.
pub(crate) const TRUTH: Type = Type::Word(Word::Truth);

/// It is a number wherever one is wanted, and has a name when it is printed.
pub(crate) fn is_named_number(ty: &Type) -> bool {
    matches!(ty, Type::Word(Word::Truth | Word::Enum(_)))
}

/// A pointer, or a number with a name, taken as a number.
pub(crate) fn plain(ty: &Type) -> Type {
    match ty {
        Type::Pointer(_) => Type::U64,
        Type::Word(Word::Truth | Word::Enum(_)) => Type::I64,
        other => other.clone(),
    }
}

/// Bytes of no further type.
pub(crate) fn object(bytes: u32) -> Type {
    Type::Object { ty: CTypes::VOID, bytes }
}

/// What the length of a text is called among fields: no field has a blank in its name.
pub(crate) fn length_of(field: &str) -> String {
    format!("{field} length")
}

/// C's type of what is true or false.
pub(crate) fn is_truth_name(name: &TypeName) -> bool {
    let is_bool = |word: &str| matches!(word, "bool" | "_Bool");
    name.suffixes.is_empty() && matches!(&name.base, TypeBase::Basic(word) if is_bool(word))
}

/// The type of a value of the IR, where pointers and words are numbers, and addresses bytes.
pub(crate) fn in_ir(ty: &Type) -> Type {
    match ty {
        Type::Pointer(_) | Type::Word(_) => Type::U64,
        Type::Inet | Type::Buffer { .. } => object(ty.bytes()),
        other => other.clone(),
    }
}

/// Widens `place` so that `value` fits: integers keep the first sign, strings take the longer length; a number fits where a pointer
/// is, and a pointer where a number is. False if the two are different kinds.
pub(crate) fn unify(place: &mut Type, value: &Type) -> bool {
    match (place, value) {
        // What does not always have such a name is a number.
        (place, value) if is_named_number(place) && *place != *value => {
            let is_number = is_named_number(value) || matches!(value, Type::Int { .. });
            *place = Type::I64;
            is_number
        }
        (Type::Int { .. }, Type::Word(Word::Truth | Word::Enum(_)))
        | (Type::Int { .. }, Type::Int { .. })
        | (Type::Double, Type::Double)
        | (Type::Probe, Type::Probe)
        | (Type::Func, Type::Func)
        | (Type::Usym, Type::Usym)
        | (Type::Inet, Type::Inet)
        | (Type::Pointer(_), Type::Int { .. })
        | (Type::Int { .. }, Type::Pointer(_)) => true,
        (Type::Pointer(to), Type::Pointer(other)) => to == other || [*to, *other].contains(&CTypes::VOID),
        (Type::Ustack(form), Type::Ustack(other)) => form == other,
        (Type::Word(word), Type::Word(other)) => word == other,
        (Type::Object { ty, .. }, Type::Object { ty: other, .. }) => ty == other,
        (Type::Str { bytes }, Type::Str { bytes: other })
        | (Type::Buffer { bytes }, Type::Buffer { bytes: other }) => {
            *bytes = (*bytes).max(*other);
            true
        }
        (Type::Tuple(parts), Type::Tuple(others)) if parts.len() == others.len() => {
            parts.iter_mut().zip(others).all(|(part, other)| unify(part, other))
        }
        (Type::Record(parts), Type::Record(others)) if parts.len() == others.len() => parts
            .iter_mut()
            .zip(others)
            .all(|((name, part), (other_name, other))| name == other_name && unify(part, other)),
        _ => false,
    }
}

/// The common type of two values, either of which may be taken: `?:`. Signed if both are.
pub(crate) fn join(left: &Type, right: &Type) -> Option<Type> {
    match (left, right) {
        (Type::Int { signed: a }, Type::Int { signed: b }) => Some(Type::Int { signed: *a && *b }),
        (left, right) if left != right && (is_named_number(left) || is_named_number(right)) => {
            match (plain(left), plain(right)) {
                (Type::Int { signed: a }, Type::Int { signed: b }) => Some(Type::Int { signed: a && b }),
                _ => None,
            }
        }
        (Type::Int { .. }, Type::Pointer(to)) => Some(Type::Pointer(*to)),
        (Type::Tuple(a), Type::Tuple(b)) if a.len() == b.len() => {
            a.iter().zip(b).map(|(a, b)| join(a, b)).collect::<Option<Vec<_>>>().map(Type::Tuple)
        }
        (Type::Record(a), Type::Record(b)) if a.len() == b.len() => {
            let part = |((name, a), (other, b)): (&(String, Type), &(String, Type))| {
                (name == other).then(|| Some((name.clone(), join(a, b)?))).flatten()
            };
            a.iter().zip(b).map(part).collect::<Option<Vec<_>>>().map(Type::Record)
        }
        _ => {
            let mut joined = left.clone();
            unify(&mut joined, right).then_some(joined)
        }
    }
}

/// The type that reading a map gives, if it can be read in an expression: bpftrace's "castable" maps as integers.
pub(crate) fn readable(value: &MapValue) -> Option<Type> {
    match value {
        MapValue::Plain(ty) => Some(ty.clone()),
        MapValue::Count => Some(Type::I64),
        MapValue::Sum { signed }
        | MapValue::Avg { signed }
        | MapValue::Min { signed }
        | MapValue::Max { signed } => Some(Type::Int { signed: *signed }),
        MapValue::Stats { .. }
        | MapValue::Hist { .. }
        | MapValue::Lhist { .. }
        | MapValue::Tseries { .. } => None,
    }
}

/// Bytes of a string type that holds `length` characters and a NUL. `max_strlen` bounds the length.
pub(crate) fn string_bytes(length: u64) -> u32 {
    assert!(length <= limits::MAX_STRLEN_RANGE.1, "a string of {length} bytes was let through");
    (length as u32 + 1).next_multiple_of(8)
}

/// The string that two make, one behind the other. It grows by doubling, so that `$s = str_concat($s, "x")` in a loop soon has a type.
pub(crate) fn concatenated(left: &Type, right: &Type, max_strlen: u32) -> Type {
    let both = (left.bytes() + right.bytes()).next_power_of_two();
    Type::Str { bytes: both.min(max_strlen.next_multiple_of(8)) }
}

/// The buffer of at most so many bytes.
pub(crate) fn buffer(most: u32) -> Type {
    Type::Buffer { bytes: 8 + most.max(1).next_multiple_of(8) }
}

/// The string that an array of so many `char` is read as. Where C does not say how many they are, it is read to its end.
pub(crate) fn text_of(count: u32, max_strlen: u32) -> Type {
    let length = if count == 0 { max_strlen - 1 } else { count };
    Type::Str { bytes: string_bytes(u64::from(length).min(limits::MAX_STRLEN_RANGE.1 - 1)) }
}

/// The bytes of an address in network order.
pub(crate) fn address_bytes(text: &str) -> Option<Vec<u8>> {
    let short = text.parse::<Ipv4Addr>().ok().map(|address| address.octets().to_vec());
    short.or_else(|| text.parse::<Ipv6Addr>().ok().map(|address| address.octets().to_vec()))
}

/// A type as messages name it.
pub(crate) fn describe(ty: &Type, types: &CTypes) -> String {
    match ty {
        Type::Pointer(to) if *to == CTypes::VOID => "pointer".to_string(),
        Type::Pointer(to) => format!("pointer to {}", types.name(*to)),
        Type::Object { ty, .. } => types.name(*ty),
        Type::Int { signed: true } => "int64".to_string(),
        Type::Int { signed: false } => "uint64".to_string(),
        Type::Double => "double".to_string(),
        Type::Str { .. } => "string".to_string(),
        Type::Word(word) => match word {
            Word::Truth => "bool",
            Word::Enum(of) => return types.name(*of),
            Word::Errno => "error name",
            Word::Signal => "signal name",
            Word::Syscall => "system call name",
            Word::User => "user name",
            Word::Mac => "MAC address",
            Word::Process => "process name",
            Word::Cgroup => "control group path",
            Word::Time { .. } => "time",
        }
        .to_string(),
        Type::Probe => "probe name".to_string(),
        Type::Func => "function name".to_string(),
        Type::Usym => "user symbol".to_string(),
        Type::Inet => "internet address".to_string(),
        Type::Buffer { .. } => "buffer".to_string(),
        Type::Ustack(form) => format!("user stack ({}, {})", form.mode.name(), form.frames),
        Type::Tuple(parts) => {
            format!("({})", parts.iter().map(|part| describe(part, types)).collect::<Vec<_>>().join(", "))
        }
        Type::Record(parts) => {
            let part = |(name, ty): &(String, Type)| format!(".{name} = {}", describe(ty, types));
            format!("record {{ {} }}", parts.iter().map(part).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A type with its article: `an int64`.
pub(crate) fn describe_one(ty: &Type, types: &CTypes) -> String {
    let article = match ty {
        Type::Int { signed: true } | Type::Word(Word::Errno) | Type::Inet => "an",
        _ => "a",
    };
    format!("{article} {}", describe(ty, types))
}

/// A map's value as messages name it.
pub(crate) fn describe_map(value: &MapValue, types: &CTypes) -> String {
    match value {
        MapValue::Plain(ty) => describe(ty, types),
        MapValue::Count => "count".to_string(),
        MapValue::Sum { .. } => "sum".to_string(),
        MapValue::Avg { .. } => "avg".to_string(),
        MapValue::Stats { .. } => "stats".to_string(),
        MapValue::Min { .. } => "min".to_string(),
        MapValue::Max { .. } => "max".to_string(),
        MapValue::Hist { .. } => "hist".to_string(),
        MapValue::Tseries { .. } => "tseries".to_string(),
        MapValue::Lhist { .. } => "lhist".to_string(),
    }
}
