//! Attributes: `packed`, `aligned` and others that change where members lie.

use weir_event::ctype::{CType, TypeId};

use super::{Reader, Result};
use crate::condition::evaluate;
use crate::limits;
use crate::token::Token;

/// What attributes say of a type or a member.
#[derive(Clone, Copy, Default)]
pub(super) struct Attributes {
    pub(super) is_packed: bool,
    pub(super) align: Option<u32>,
    /// Of a `typedef` that was declared with one: it stands for the type's own.
    pub(super) natural: Option<u32>,
    /// Bytes of a vector; 0 where that is not read.
    pub(super) vector: Option<u32>,
    /// Bytes of an integer.
    pub(super) mode: Option<u8>,
}

impl Attributes {
    /// Both.
    pub(super) fn with(self, other: Attributes) -> Attributes {
        Attributes {
            is_packed: self.is_packed || other.is_packed,
            align: self.align.max(other.align),
            natural: self.natural.or(other.natural),
            vector: self.vector.or(other.vector),
            mode: self.mode.or(other.mode),
        }
    }
}

impl Reader<'_> {
    /// All attributes that stand here, and names for the assembler.
    pub(super) fn attributes(&mut self) -> Result<Attributes> {
        let mut attributes = Attributes::default();
        loop {
            let is_align = self.is_next("_Alignas") || self.is_next("alignas");
            let names = ["__attribute__", "__attribute", "_Alignas", "alignas", "__declspec"];
            if !names.into_iter().any(|name| self.is_next(name)) && !self.is_assembler_next() {
                return Ok(attributes);
            }
            self.next();
            let inside = self.skip_brackets();
            if is_align {
                attributes.align = self.align(&inside);
                continue;
            }
            for (at, token) in inside.iter().enumerate() {
                match &*token.text {
                    "packed" | "__packed__" => attributes.is_packed = true,
                    "aligned" | "__aligned__" => {
                        let has_value = inside.get(at + 1).is_some_and(|next| next.is("("));
                        let after = inside.get(at + 2..).filter(|_| has_value).unwrap_or_default();
                        let mut open = 1;
                        let close = after.iter().position(|token| {
                            open += i32::from(token.is("(")) - i32::from(token.is(")"));
                            open == 0
                        });
                        attributes.align =
                            if has_value { self.align(&after[..close.unwrap_or(0)]) } else { Some(16) };
                    }
                    "vector_size" | "__vector_size__" => {
                        let size = inside.get(at + 2).and_then(|size| size.text.parse().ok());
                        attributes.vector = size.or(Some(0));
                    }
                    "mode" | "__mode__" => {
                        let mode = inside.get(at + 2).map_or("", |mode| mode.text.trim_matches('_'));
                        let modes = [
                            ("QI", 1),
                            ("byte", 1),
                            ("HI", 2),
                            ("SI", 4),
                            ("DI", 8),
                            ("word", 8),
                            ("pointer", 8),
                        ];
                        attributes.mode =
                            modes.iter().find(|(known, _)| *known == mode).map(|(_, bytes)| *bytes);
                    }
                    _ => {}
                }
            }
        }
    }

    /// The type with the size that attributes give it.
    pub(super) fn with_mode(&mut self, ty: TypeId, attributes: Attributes) -> TypeId {
        let changed = match (self.declarations.types.get(ty), attributes.mode, attributes.vector) {
            (_, _, Some(bytes)) => {
                CType::Other { what: "a vector".to_string(), bytes: (bytes > 0).then_some(bytes) }
            }
            (CType::Int { signed, .. }, Some(bytes), _) => {
                CType::Int { bytes, signed: *signed, is_char: false }
            }
            _ => return ty,
        };
        self.types().add(changed)
    }

    /// The value of an alignment: a number, or a type that has it.
    pub(super) fn align(&mut self, tokens: &[Token]) -> Option<u32> {
        let value = match self.type_of(tokens) {
            Some(ty) => i128::from(self.alignment(ty)),
            None => evaluate(tokens, self)?,
        };
        u32::try_from(value).ok().filter(|value| value.is_power_of_two() && *value <= limits::C_ALIGN_MAX)
    }
}
