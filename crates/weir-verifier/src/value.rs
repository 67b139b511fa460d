//! What a register or an 8-byte stack slot holds, and how two become one.

use crate::scalar::Scalar;

/// What a register or an 8-byte stack slot holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Value {
    /// Nothing that may be read.
    Uninit,
    Scalar(Scalar),
    /// Some frame's r10 and a constant.
    Stack(StackAt),
    /// Some frame's r10 and a number that is no constant.
    StackSpan(StackSpan),
    Context,
    /// The context's address, moved by this.
    ContextAt(Scalar),
    Packet(PacketAt),
    /// Behind the last byte of the packet.
    PacketEnd,
    /// Into the `size` bytes that the program was lent, at this offset.
    Memory {
        size: u32,
        offset: Scalar,
    },
    /// A map of the object, as helpers take it.
    Map(u32),
    /// A map that another map holds, which is like this one of the object.
    InnerMap(u32),
    /// Null, or such a map. Copies share the id.
    InnerMapOrNull {
        like: u32,
        id: u32,
    },
    /// The function that begins at this slot, as helpers take it.
    Function(u32),
    /// Into a value of this map, at this offset.
    Element {
        map: u32,
        offset: Scalar,
    },
    /// Into a key of this map, at this offset: read-only.
    Key {
        map: u32,
        offset: Scalar,
    },
    /// Null, or the start of a value of this map. Copies share the id: what is learned of one holds for all.
    ElementOrNull {
        map: u32,
        id: u32,
    },
    /// Into a reserved record of `size` bytes, at this offset; or into `size` bytes of the record of a dynptr.
    Record {
        size: u32,
        offset: Scalar,
        id: u32,
        dynptr: Option<u32>,
    },
    RecordOrNull {
        size: u32,
        id: u32,
        dynptr: Option<u32>,
    },
    /// One of the two halves of a dynptr, whose record has this id. It stands in the stack alone, and is not loaded.
    Dynptr {
        id: u32,
        is_second: bool,
    },
}

impl Value {
    /// How far a pointer is from where its object begins, if that is all that is known of where it points.
    pub(crate) fn distance(self) -> Option<Scalar> {
        match self {
            Value::Memory { offset, .. } | Value::Element { offset, .. } | Value::Key { offset, .. } => {
                Some(offset)
            }
            _ => None,
        }
    }

    /// The same value, whose number, or distance as a pointer, is known to be this.
    pub(crate) fn with(self, number: Scalar) -> Value {
        match self {
            Value::Memory { size, .. } => Value::Memory { size, offset: number },
            Value::Element { map, .. } => Value::Element { map, offset: number },
            Value::Key { map, .. } => Value::Key { map, offset: number },
            _ => Value::Scalar(number),
        }
    }

    /// How far two pointers are from where the object begins that both point into.
    pub(crate) fn distances(self, other: Value) -> Option<(Scalar, Scalar)> {
        let (mine, theirs) = (self.distance()?, other.distance()?);
        (self.with(theirs) == other).then_some((mine, theirs))
    }
}

/// A place in the stack of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StackAt {
    /// 0 is the program's own, 1 that of the function it calls, and so on.
    pub(crate) frame: u8,
    /// Relative to that frame's r10.
    pub(crate) off: i64,
}

/// Somewhere in the stack of one frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct StackSpan {
    pub(crate) frame: u8,
    /// Relative to that frame's r10.
    pub(crate) offset: Scalar,
}

impl StackSpan {
    /// Where a pointer into a stack may point.
    pub(crate) fn of(value: Value) -> Option<StackSpan> {
        match value {
            Value::Stack(StackAt { frame, off }) => {
                Some(StackSpan { frame, offset: Scalar::constant(off as u64) })
            }
            Value::StackSpan(span) => Some(span),
            _ => None,
        }
    }

    /// The first place of them, and how many bytes an access of `bytes` may reach from there on. Both ends of the
    /// offset are within POINTER_OFFSET_MAX.
    pub(crate) fn reach(self, bytes: i64) -> (StackAt, i64) {
        let Scalar { smin, smax, .. } = self.offset;
        (StackAt { frame: self.frame, off: smin }, smax - smin + bytes)
    }
}

/// A place in a packet or in its metadata: so many bytes behind the start of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PacketAt {
    /// In the metadata, which ends where the packet begins.
    pub(crate) is_meta: bool,
    /// Numbers the unknown part of the distance: pointers with the same id have the same. 0: there is none.
    pub(crate) id: u32,
    /// What is known of the unknown part.
    pub(crate) unknown: Scalar,
    /// The rest of the distance.
    pub(crate) fixed: i64,
    /// Bytes from the end of the unknown part on that are inside. Not 0 only where the unknown part is not negative.
    pub(crate) range: u32,
}

/// How two states become one that holds both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Join {
    /// Numbers that differ become their hull.
    Hull,
    /// And so do distances of pointers into one object.
    HullOfAll,
    /// Numbers that differ become unknown, unless one of the two holds the other, or is a constant that bounds both.
    Bound,
    /// Numbers that differ become unknown, unless one of the two holds the other.
    Unknown,
    /// Numbers that differ become unknown, and other values that differ may not be read any more.
    Round,
}
