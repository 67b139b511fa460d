//! What an event of an instrumented program carries: its fields, their types, and where each lies.
//!
//! Beside the records of the crate's root, which programs of weir write, this is about what the traced program offers: 8-byte
//! *slots*, one a field. An integer's slot holds its value, extended to 8 bytes as its type says; a string's or a text's its address, or 0;
//! a floating-point number's its bits, in the low 4 or 8 bytes; that of an array, a sequence or a struct the address of its bytes.

/// One kind of event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Schema {
    /// The first part of its name.
    pub provider: String,
    /// The second part of its name.
    pub event: String,
    /// `None` where the program does not say.
    pub level: Option<Level>,
    /// In the order of the slots that they take, which need not follow one another.
    pub fields: Vec<Field>,
}

/// One named value of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// As the tracepoint has it.
    pub name: String,
    /// What is there.
    pub ty: Type,
    /// Number of its slot; a sequence has its number of elements in the slot behind, and a stack has none.
    pub slot: u8,
    /// How integers are shown.
    pub form: Form,
}

/// How the numbers of a field are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// To base 10.
    #[default]
    Decimal,
    /// To base 16, with `0x`.
    Hexadecimal,
    /// An array or a sequence of bytes is characters (UTF-8).
    Text,
    /// Elements of an array or a sequence have their most significant byte first.
    Network,
    /// The same, to base 16.
    NetworkHexadecimal,
}

impl Form {
    /// With `0x`.
    pub fn is_hexadecimal(self) -> bool {
        matches!(self, Form::Hexadecimal | Form::NetworkHexadecimal)
    }

    /// The bytes of numbers are in the order of networks.
    pub fn is_network(self) -> bool {
        matches!(self, Form::Network | Form::NetworkHexadecimal)
    }
}

/// How much an event matters: 0 (`emerg`) to 14 (`debug`), LTTng's numbers and names. The smaller, the more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Level(u8);

impl Level {
    /// Of the levels, by number, as LTTng writes them.
    pub const NAMES: [&str; 15] = [
        "emerg",
        "alert",
        "crit",
        "err",
        "warning",
        "notice",
        "info",
        "debug_system",
        "debug_program",
        "debug_process",
        "debug_module",
        "debug_unit",
        "debug_function",
        "debug_line",
        "debug",
    ];

    /// `None` above 14.
    pub fn new(number: u8) -> Option<Level> {
        (usize::from(number) < Level::NAMES.len()).then_some(Level(number))
    }

    /// The level of this name, in letters of either case.
    pub fn named(name: &str) -> Option<Level> {
        let number = Level::NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        Some(Level(number as u8))
    }

    /// LTTng's: the greater, the less it matters.
    pub fn number(self) -> u8 {
        self.0
    }

    /// As LTTng writes it.
    pub fn name(self) -> &'static str {
        Level::NAMES[usize::from(self.0)]
    }
}

/// What a field is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// 1, 2, 4 or 8 bytes.
    Int {
        /// So many.
        bytes: u8,
        /// How it is shown and compared.
        signed: bool,
    },
    /// 4 or 8 bytes, IEEE 754.
    Float {
        /// So many.
        bytes: u8,
    },
    /// Bytes that end in a NUL, at an address that nobody vouches for: it is read safely, and may be 0.
    Str,
    /// The same, which the program itself declares to be there, as a tracepoint's `string`: the address is 0, or that of bytes
    /// that may be read up to a NUL as long as the event is offered. It is read directly.
    Text,
    /// An integer whose values have names, each for a range from the first to the last.
    Enum {
        /// Of the integer.
        bytes: u8,
        /// How its values are compared.
        signed: bool,
        /// Each with its first and its last value.
        labels: Vec<(String, i64, i64)>,
    },
    /// Elements next to each other, of a number that is part of the type.
    Array {
        /// Of each.
        element: Box<Type>,
        /// How many.
        count: u32,
    },
    /// The same, of a number that the event has.
    Sequence {
        /// Of each.
        element: Box<Type>,
    },
    /// Where the event was, and the return addresses of the calls that led there, innermost first, so many at most. It is no value of the
    /// program's and has no slot: whoever records the event adds it.
    Stack {
        /// The most.
        frames: u32,
    },
    /// Fields with their offsets in bytes.
    Struct {
        /// Name, offset and type of each.
        fields: Vec<(String, u32, Type)>,
    },
}

impl Schema {
    /// Bit n: slot n holds a [`Type::Text`].
    pub fn text_slots(&self) -> u32 {
        let texts = self.fields.iter().filter(|field| field.ty == Type::Text);
        texts.fold(0, |slots, field| slots | 1u32.checked_shl(field.slot.into()).unwrap_or(0))
    }
}

impl Type {
    /// Size in bytes and sign of an integer or an enumeration.
    pub fn integer(&self) -> Option<(u8, bool)> {
        match *self {
            Type::Int { bytes, signed } | Type::Enum { bytes, signed, .. } => Some((bytes, signed)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_numbers_and_names() {
        assert_eq!(Level::named("INFO"), Level::new(6));
        assert_eq!(Level::new(13).map(Level::name), Some("debug_line"));
        assert_eq!((Level::new(15), Level::named("information")), (None, None));
        assert!(Level::new(0) < Level::new(14));
    }
}
