//! The event that expressions are about: its fields, what may be in them, and how that lies in memory.

use std::ffi::CString;
use std::sync::LazyLock;

use weir_event::schema::{Field, Form, Schema, Type};
use weir_rt::executable::Frame;

/// Fields of every kind, by their numbers: integers of all sizes, strings, floating-point numbers, and what has parts.
pub(crate) static FIELDS: LazyLock<Vec<(&'static str, Type)>> = LazyLock::new(|| {
    let int = |bytes, signed| Type::Int { bytes, signed };
    let members = [
        ("x", 0, int(2, true)),
        ("y", 8, Type::Float { bytes: 8 }),
        ("z", 16, Type::Str),
        ("w", 24, Type::Array { element: Box::new(int(1, false)), count: 2 }),
    ];
    let members = members.map(|(name, offset, ty): (&str, u32, Type)| (name.to_owned(), offset, ty));
    vec![
        ("i8", int(1, true)),
        ("i32", int(4, true)),
        ("i64", int(8, true)),
        ("u16", int(2, false)),
        ("u32", int(4, false)),
        ("u64", int(8, false)),
        ("s", Type::Str),
        ("t", Type::Text),
        ("d", Type::Float { bytes: 8 }),
        ("f", Type::Float { bytes: 4 }),
        ("e", Type::Enum { bytes: 4, signed: true, labels: labels() }),
        ("arr", Type::Array { element: Box::new(int(4, true)), count: 3 }),
        ("seq", Type::Sequence { element: Box::new(int(2, false)) }),
        ("o", Type::Struct { fields: members.to_vec() }),
    ]
});

/// A range, two that touch, and one name for two of them.
pub(crate) fn labels() -> Vec<(String, i64, i64)> {
    let labels = [("IDLE", 0, 0), ("RUN", 1, 3), ("RUNNING", 4, 4), ("ODD", -1, -1), ("ODD", 127, 128)];
    labels.map(|(name, first, last)| (name.to_owned(), first, last)).to_vec()
}

/// A number that is read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Read {
    Field(usize),
    /// Of `arr` or `seq`.
    Element(usize, usize),
    /// Of `o`: the member, and its element.
    Member(&'static str, Option<usize>),
}

impl std::fmt::Display for Read {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Read::Field(field) => f.write_str(FIELDS[*field].0),
            Read::Element(field, index) => write!(f, "{}[{index}]", FIELDS[*field].0),
            Read::Member(name, None) => write!(f, "o.{name}"),
            Read::Member(name, Some(index)) => write!(f, "o->{name}[{index}]"),
        }
    }
}

/// The value of a field, or of a part of one.
#[derive(Clone, Debug)]
pub(crate) enum Datum {
    Int(i64),
    Double(f64),
    Str(Option<Vec<u8>>),
    /// Of an array or a sequence.
    Ints(Vec<i64>),
    /// x, y, z and w of `o`.
    Struct(i64, f64, Option<Vec<u8>>, [u8; 2]),
}

impl Read {
    /// None where there is no such element.
    pub(crate) fn of(self, event: &[Datum]) -> Option<Datum> {
        match self {
            Read::Field(field) => Some(event[field].clone()),
            Read::Element(field, index) => match &event[field] {
                Datum::Ints(elements) => elements.get(index).map(|element| Datum::Int(*element)),
                other => panic!("{other:?} has no elements"),
            },
            Read::Member(name, index) => {
                let Datum::Struct(x, y, z, w) = &event[13] else { panic!("no struct") };
                Some(match (name, index) {
                    ("x", None) => Datum::Int(*x),
                    ("y", None) => Datum::Double(*y),
                    ("z", None) => Datum::Str(z.clone()),
                    ("w", Some(index)) => Datum::Int(w[index].into()),
                    other => panic!("no member {other:?}"),
                })
            }
        }
    }

    /// Whether the integer that it reads is signed.
    pub(crate) fn is_signed(self) -> bool {
        match self {
            Read::Field(field) => FIELDS[field].1.integer().expect("an integer").1,
            Read::Element(field, _) => FIELDS[field].0 == "arr",
            Read::Member(name, _) => name == "x",
        }
    }
}

pub(crate) fn schema() -> Schema {
    let mut slot = 0;
    let mut fields = Vec::new();
    for (name, ty) in FIELDS.iter() {
        fields.push(Field { name: (*name).to_owned(), ty: ty.clone(), slot, form: Form::default() });
        slot += if matches!(ty, Type::Sequence { .. }) { 2 } else { 1 };
    }
    Schema { provider: "p".into(), event: "e".into(), fields, ..Schema::default() }
}

/// An event as a program finds it.
pub(crate) struct Raised {
    pub(crate) frame: Frame,
    /// What the slots point to.
    _memory: (Vec<CString>, Vec<Vec<u8>>),
}

pub(crate) fn raise(event: &[Datum]) -> Raised {
    let (mut strings, mut blocks, mut words) = (Vec::new(), Vec::new(), Vec::new());
    let mut address = |text: &Option<Vec<u8>>| {
        let Some(text) = text else { return 0 };
        strings.push(CString::new(text.clone()).expect("no NUL"));
        strings[strings.len() - 1].as_ptr() as u64
    };
    for ((name, _), datum) in FIELDS.iter().zip(event) {
        let block = match datum {
            Datum::Int(value) => {
                words.push(*value as u64);
                continue;
            }
            Datum::Double(value) => {
                // What lies above the 4 bytes is of no account.
                let low = u64::from((*value as f32).to_bits()) | 0xdead_beef << 32;
                words.push(if *name == "f" { low } else { value.to_bits() });
                continue;
            }
            Datum::Str(text) => {
                words.push(address(text));
                continue;
            }
            Datum::Ints(elements) if *name == "arr" => {
                elements.iter().flat_map(|element| (*element as i32).to_le_bytes()).collect()
            }
            Datum::Ints(elements) => {
                elements.iter().flat_map(|element| (*element as u16).to_le_bytes()).collect()
            }
            Datum::Struct(x, y, z, w) => {
                let mut block = x.to_le_bytes().to_vec();
                block.extend(y.to_le_bytes());
                block.extend(address(z).to_le_bytes());
                block.extend(w);
                block
            }
        };
        blocks.push(block);
        words.push(blocks[blocks.len() - 1].as_ptr() as u64);
        if let (Datum::Ints(elements), "seq") = (datum, *name) {
            words.push(elements.len() as u64);
        }
    }
    let mut frame = Frame::default();
    frame.regs.iter_mut().zip(&words).for_each(|(slot, word)| *slot = *word);
    Raised { frame, _memory: (strings, blocks) }
}
