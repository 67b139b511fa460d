//! Where System V's calling convention puts arguments (psABI 3.2.3): integers and addresses in six general registers,
//! floating-point numbers in eight vector registers, each in the order of the parameters, and the rest on the stack.
//!
//! A struct of up to 16 bytes goes into registers or onto the stack, depending on what is in it, and in C++ a larger one may
//! be passed by its address: rather than to decide that, places behind one are not known.

use gimli::{AttributeValue, DebuggingInformationEntry, EndianSlice, LittleEndian, constants as dw};

use crate::prototypes::Passed;

/// Registers of integers and addresses, in order: rdi, rsi, rdx, rcx, r8, r9.
const GENERAL: [u8; 6] = [7, 6, 2, 1, 8, 9];
const VECTORS: u8 = 8;
const UNKNOWN: &str = "where it is passed is not known: the function takes or gives back a struct by value";

/// How a value is passed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    General,
    Vector,
    /// Two general ones, the second of which is asked for by itself.
    Pair,
    /// A struct, of a language or compiler that does not say more.
    Struct {
        bytes: Option<u64>,
    },
    /// A struct whose bytes are copied.
    ByValue {
        bytes: Option<u64>,
    },
    /// A struct of which a general register has the address.
    ByReference,
    /// In vector registers or on the stack: numbers of 16 bytes and more.
    Wide,
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    C,
    /// Structs may be passed by reference.
    Other,
}

/// Of a unit; none for languages whose functions are called otherwise.
pub(super) fn language_of(
    unit: &DebuggingInformationEntry<EndianSlice<'_, LittleEndian>>,
) -> Option<Language> {
    match unit.attr_value(dw::DW_AT_language) {
        Some(AttributeValue::Language(language)) => match language {
            dw::DW_LANG_C
            | dw::DW_LANG_C89
            | dw::DW_LANG_C99
            | dw::DW_LANG_C11
            | dw::DW_LANG_C17
            | dw::DW_LANG_ObjC => Some(Language::C),
            dw::DW_LANG_C_plus_plus
            | dw::DW_LANG_C_plus_plus_03
            | dw::DW_LANG_C_plus_plus_11
            | dw::DW_LANG_C_plus_plus_14
            | dw::DW_LANG_C_plus_plus_17
            | dw::DW_LANG_C_plus_plus_20
            | dw::DW_LANG_Rust => Some(Language::Other),
            _ => None,
        },
        _ => None,
    }
}

/// What of the convention's places is taken. None: from here on that is not known.
pub(super) struct Places {
    language: Language,
    general: Option<u8>,
    vectors: Option<u8>,
    /// Bytes above the return address.
    stack: Option<u32>,
}

/// Structs up to this size may be passed and given back in registers.
const REGISTER_BYTES: u64 = 16;

impl Places {
    /// A large struct that is given back takes the first register for its address.
    pub(super) fn new(result: Option<Class>, language: Language) -> Places {
        let general = match result {
            Some(Class::ByReference) => Some(1),
            Some(Class::Struct { bytes: Some(bytes) } | Class::ByValue { bytes: Some(bytes) })
                if bytes > REGISTER_BYTES =>
            {
                Some(1)
            }
            Some(Class::Struct { .. } | Class::ByValue { .. } | Class::Unknown) => None,
            Some(Class::General | Class::Vector | Class::Pair | Class::Wide) | None => Some(0),
        };
        Places { language, general, vectors: Some(0), stack: Some(8) }
    }

    pub(super) fn next(&mut self, class: Class) -> Result<Passed, &'static str> {
        match class {
            Class::General | Class::Pair => match self.general {
                Some(taken) if usize::from(taken) < GENERAL.len() => {
                    self.general = Some(taken + 1);
                    Ok(Passed::Register(GENERAL[usize::from(taken)]))
                }
                Some(_) => self.on_stack(),
                None => Err(UNKNOWN),
            },
            Class::Vector => match self.vectors {
                Some(taken) if taken < VECTORS => {
                    self.vectors = Some(taken + 1);
                    Ok(Passed::Vector(taken))
                }
                Some(_) => self.on_stack(),
                None => Err(UNKNOWN),
            },
            Class::ByReference => {
                self.general = self.general.map(|taken| taken.saturating_add(1).min(GENERAL.len() as u8));
                self.stack = None;
                Err("it is a struct")
            }
            Class::Struct { bytes: Some(bytes) }
                if bytes > REGISTER_BYTES && self.language == Language::C =>
            {
                self.stack = None;
                Err("it is a struct, passed by value")
            }
            Class::ByValue { bytes: Some(bytes) } if bytes > REGISTER_BYTES => {
                self.stack = None;
                Err("it is a struct, passed by value")
            }
            Class::Wide => {
                (self.vectors, self.stack) = (None, None);
                Err("numbers of more than 8 bytes are not read")
            }
            Class::Struct { .. } | Class::ByValue { .. } | Class::Unknown => {
                (self.general, self.vectors, self.stack) = (None, None, None);
                Err("it is a struct, passed by value")
            }
        }
    }

    fn on_stack(&mut self) -> Result<Passed, &'static str> {
        let at = self.stack.ok_or(UNKNOWN)?;
        self.stack = Some(at + 8);
        Ok(Passed::Stack(at))
    }
}
