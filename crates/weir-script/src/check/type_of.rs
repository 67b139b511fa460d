//! `typeof` and `typeinfo`: the type of a value as a type's name, and as a value.
//!
//! The value is checked and not evaluated. Where a C type is wanted, integers have the width that is known of them, else 64 bits.

use weir_event::ctype::{CType, TypeId};
use weir_event::{Type, Word};

use crate::ast::{Expr, TypeName};
use crate::check::Checker;
use crate::check::memory::Operand;
use crate::check::width::WHOLE;
use crate::limits;
use crate::types::{self, Ty, TypeInfo, describe, describe_one};

impl Checker<'_> {
    /// The C type of a value.
    pub(super) fn type_of(&mut self, value: &Expr) -> Option<TypeId> {
        let ty = match self.operand(value)? {
            Operand::Object(place) => return Some(place.id),
            Operand::Pointer(to) => CType::Pointer(to),
            Operand::Other(Type::Int { signed }) => {
                CType::Int { bytes: (self.width(value) / 8) as u8, signed, is_char: false }
            }
            Operand::Other(Type::Word(Word::Enum(of))) => return Some(of),
            Operand::Other(types::TRUTH) => CType::Int { bytes: 1, signed: false, is_char: false },
            Operand::Other(Type::Double) => CType::Float { bytes: 8 },
            Operand::Other(other) => {
                let message = format!("{} has no type of C", describe_one(&other, &self.types));
                self.error(value.span, &message, "integers, pointers, C records and arrays have");
                return None;
            }
        };
        Some(self.types.add(ty))
    }

    /// `typeinfo(type)`, a record.
    pub(super) fn type_info(&mut self, expr: &Expr, name: &TypeName) -> Ty {
        let found = match name.of().filter(|_| name.suffixes.is_empty()) {
            None => self.type_id(name).map(|id| self.of_c(id)),
            Some(value) => self.operand(value).map(|operand| match operand {
                Operand::Object(place) => self.of_c(place.id),
                Operand::Pointer(to) => {
                    let id = self.types.add(CType::Pointer(to));
                    self.of_c(id)
                }
                Operand::Other(ty @ Type::Str { bytes }) => {
                    let bytes = self.exact_bytes(value).unwrap_or(bytes);
                    TypeInfo { base: base_name(&ty), full: format!("string[{bytes}]") }
                }
                Operand::Other(ty) => {
                    let full = self.full_name(&ty, &mut self.widths_of(value, &ty).into_iter());
                    TypeInfo { base: base_name(&ty), full }
                }
            }),
        };
        let Some(mut info) = found else { return Ty::Unknown };
        while info.full.len() > limits::TYPE_NAME_MAX {
            info.full.pop();
        }
        let text = |text: &str| Type::Str { bytes: types::string_bytes(text.len() as u64) };
        let types = [Type::I64, text(info.base), text(&info.full)];
        self.infos.insert(expr.span.start, info);
        Ty::Value(Type::Record(TypeInfo::PARTS.iter().map(|name| (*name).to_string()).zip(types).collect()))
    }

    fn of_c(&mut self, id: TypeId) -> TypeInfo {
        let full = self.types.name(id);
        let base = match self.complete(id) {
            CType::Int { .. } | CType::Enum(_) => "int",
            CType::Float { .. } => "double",
            CType::Pointer(_) => "pointer",
            CType::Array { .. } if self.types.text(id).is_some() => "string",
            CType::Array { .. } => "array",
            CType::Void => "void",
            CType::Record(_) | CType::Named { .. } | CType::Other { .. } => "c_type",
        };
        TypeInfo { base, full }
    }

    /// As bpftrace names types, with the sizes that values have in weir.
    fn full_name(&self, ty: &Type, widths: &mut std::vec::IntoIter<u32>) -> String {
        let many =
            |parts: &mut dyn Iterator<Item = String>, between: &str| parts.collect::<Vec<_>>().join(between);
        match ty {
            Type::Int { signed } => {
                format!("{}int{}", if *signed { "" } else { "u" }, widths.next().unwrap_or(WHOLE))
            }
            Type::Tuple(parts) => {
                format!("({})", many(&mut parts.iter().map(|part| self.full_name(part, widths)), ","))
            }
            Type::Record(parts) => {
                let mut parts =
                    parts.iter().map(|(name, ty)| format!(".{name} = {}", self.full_name(ty, widths)));
                format!("record {{ {} }}", many(&mut parts, ", "))
            }
            leaf => {
                widths.next();
                self.leaf_name(leaf)
            }
        }
    }

    fn leaf_name(&self, ty: &Type) -> String {
        match ty {
            Type::Str { bytes } => format!("string[{bytes}]"),
            Type::Buffer { bytes } => format!("buffer[{bytes}]"),
            Type::Inet => format!("inet[{}]", ty.bytes()),
            Type::Ustack(form) => format!("ustack_{}_{}", form.mode.name(), form.frames),
            Type::Usym | Type::Word(Word::Time { .. } | Word::Mac | Word::Cgroup | Word::User) => {
                base_name(ty).to_string()
            }
            other => describe(other, &self.types),
        }
    }
}

/// As bpftrace names kinds of types.
fn base_name(ty: &Type) -> &'static str {
    match ty {
        Type::Int { .. } | Type::Word(Word::Enum(_)) => "int",
        Type::Double => "double",
        Type::Pointer(_) => "pointer",
        Type::Object { .. } => "c_type",
        Type::Usym => "usym_t",
        Type::Inet => "inet",
        Type::Buffer { .. } => "buffer",
        Type::Ustack(_) => "ustack",
        Type::Tuple(_) => "tuple",
        Type::Record(_) => "record",
        Type::Word(Word::Truth) => "bool",
        Type::Word(Word::Time { .. }) => "timestamp",
        Type::Word(Word::Mac) => "mac_address",
        Type::Word(Word::Cgroup) => "cgroup_path_t",
        Type::Word(Word::User) => "username_t",
        // Names, which bpftrace has as text.
        Type::Str { .. } | Type::Probe | Type::Func | Type::Word(_) => "string",
    }
}
