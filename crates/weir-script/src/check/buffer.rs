//! Buffers: bytes that are no text, and what they are taken of.

use weir_event::Type;
use weir_event::ctype::CType;

use crate::ast::Expr;
use crate::check::memory::Operand;
use crate::check::{Checker, constant};
use crate::types::{self, Ty, describe_one};

/// What the bytes of a buffer are taken of.
enum Source {
    /// Memory of the target; of an array or a record, so many bytes.
    Memory(Option<u32>),
    /// So many bytes that the script holds.
    Held(u32),
    /// A string.
    Text,
}

impl Checker<'_> {
    pub(super) fn buf(&mut self, call: &Expr, args: &[Expr]) -> Ty {
        let Some(source) = self.buffer_source(&args[0]) else {
            args[1..].iter().for_each(|length| _ = self.integer(length, "the length of `buf`"));
            return Ty::Unknown;
        };
        if let Source::Memory(_) = source {
            self.in_memory("buf", call.span);
        }
        let most = self.settings.max_strlen;
        let own = match source {
            Source::Memory(own) => own,
            Source::Held(bytes) => Some(bytes),
            Source::Text => None,
        };
        let Some(length) = args.get(1) else {
            return match (source, own) {
                (Source::Text, _) => self.text_buffer(&args[0]),
                (_, Some(own)) if own > 0 => Ty::Value(types::buffer(own.min(most))),
                _ => {
                    let message = "`buf` of an address takes how many bytes it is to read";
                    self.error(call.span, message, "write `buf(p, n)`");
                    Ty::Unknown
                }
            };
        };
        match (constant(length, self.known), &source) {
            (Some(value), _) if value < 0 => {
                let message = format!("the length of `buf` cannot be negative: {value}");
                self.error(length.span, &message, "it is the number of bytes");
                Ty::Unknown
            }
            (Some(value), Source::Held(own)) if value > i128::from(*own) => {
                let message = format!("the length {value} is more than the {own} bytes that there are");
                self.error(length.span, &message, "leave it out for all of them");
                Ty::Unknown
            }
            (Some(value), _) if value > i128::from(most) => {
                let message = format!("the length {value} is above the limit of {most}");
                self.warning(length.span, &message, "raise it with `config = { max_strlen = …; }`");
                Ty::Value(types::buffer(most))
            }
            (Some(value), _) => Ty::Value(types::buffer(value as u32)),
            (None, Source::Memory(_)) => {
                self.integer(length, "the length of `buf`");
                Ty::Value(types::buffer(most))
            }
            (None, _) => {
                self.integer(length, "the length of `buf`");
                let message = "the length of `buf` must be a constant where it is not memory that is read";
                self.error(length.span, message, "such as `buf($s, 8)`");
                Ty::Unknown
            }
        }
    }

    /// All of a string: as many bytes as it has at most.
    fn text_buffer(&mut self, text: &Expr) -> Ty {
        match self.value(text) {
            Some(Type::Str { bytes }) => Ty::Value(types::buffer(bytes)),
            _ => Ty::Unknown,
        }
    }

    fn buffer_source(&mut self, expr: &Expr) -> Option<Source> {
        let found = match self.operand(expr)? {
            Operand::Pointer(_) | Operand::Other(Type::Int { .. }) => return Some(Source::Memory(None)),
            Operand::Other(Type::Str { .. }) => return Some(Source::Text),
            Operand::Object(place) => match self.complete(place.id) {
                CType::Array { .. } | CType::Record(_) => {
                    let bytes = self.size(place.id, expr.span)?;
                    return Some(match place.is_held {
                        true => Source::Held(bytes),
                        false => Source::Memory(Some(bytes)),
                    });
                }
                CType::Int { .. } | CType::Enum(_) => return Some(Source::Memory(None)),
                _ => format!("`{}`", self.types.name(place.id)),
            },
            Operand::Other(ty) => describe_one(&ty, &self.types),
        };
        let message = format!("`buf` takes an address, an array or a string, not {found}");
        self.error(expr.span, &message, "such as `buf(arg0, 16)`");
        None
    }
}
