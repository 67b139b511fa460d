//! What a text of TSDL says, before anything has its place: names as written, references relative, byte orders open.

use std::rc::Rc;

use crate::class::{Base, ByteOrder};

/// A whole text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    pub(crate) order: Option<ByteOrder>,
    pub(crate) uuid: Option<[u8; 16]>,
    pub(crate) packet_header: Option<Rc<Type>>,
    pub(crate) environment: Vec<(String, Literal)>,
    pub(crate) clocks: Vec<crate::class::ClockClass>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) offset: usize,
    pub(crate) id: u64,
    pub(crate) packet_context: Option<Rc<Type>>,
    pub(crate) event_header: Option<Rc<Type>>,
    pub(crate) event_context: Option<Rc<Type>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    pub(crate) offset: usize,
    pub(crate) id: u64,
    pub(crate) stream_id: u64,
    pub(crate) name: Option<String>,
    pub(crate) level: Option<i64>,
    pub(crate) context: Option<Rc<Type>>,
    pub(crate) fields: Option<Rc<Type>>,
}

/// The right side of an assignment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Literal {
    Int(i128),
    Str(String),
    /// `a.b.c`
    Path(Vec<String>),
}

/// Shared by all that use it by name.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Type {
    Int(Int),
    Enum(Int, Vec<(String, i128, i128)>),
    Float { bits: u8, align: u32, order: Option<ByteOrder> },
    Str,
    Struct { members: Vec<Member>, align: u32 },
    Variant { tag: Option<Path>, options: Vec<Member> },
    Array { element: Rc<Type>, count: u64 },
    Sequence { element: Rc<Type>, length: Path },
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Int {
    pub(crate) bits: u8,
    pub(crate) align: u32,
    pub(crate) is_signed: bool,
    /// `None`: the trace's.
    pub(crate) order: Option<ByteOrder>,
    pub(crate) base: Base,
    pub(crate) is_text: bool,
    /// The clock's name, and where it is written.
    pub(crate) clock: Option<(String, usize)>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) ty: Rc<Type>,
    pub(crate) offset: usize,
}

/// A reference as it is written, and where.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Path {
    pub(crate) names: Vec<String>,
    pub(crate) offset: usize,
}
