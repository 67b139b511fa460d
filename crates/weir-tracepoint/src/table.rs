//! Tables of labels and members, as docs/tracepoint-format.md has them, and numbers as they stand there.

/// A row: first and last value of a label, or offset and number of a member. An empty name ends a table.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Row {
    first: i64,
    last: i64,
    name: [u8; 48],
}

impl Row {
    /// Ends a table.
    pub const END: Row = Row { first: 0, last: 0, name: [0; 48] };
}

/// The row of a value's name.
pub const fn label(name: &str, value: i64) -> Row {
    Row { first: value, last: value, name: padded(name) }
}

/// The row of a member: where it is, and its [`Number::CODE`].
pub const fn member(name: &str, offset: usize, code: i64) -> Row {
    Row { first: offset as i64, last: code, name: padded(name) }
}

const fn padded(name: &str) -> [u8; 48] {
    assert!(name.len() < 48, "weir: a label or a member of a tracepoint has a name of at most 47 bytes");
    let (mut out, mut at) = ([0; 48], 0);
    while at < name.len() {
        out[at] = name.as_bytes()[at];
        at += 1;
    }
    out
}

/// What an array, a slice or a member may consist of.
pub trait Number: Copy {
    /// Bytes in the low 8 bits, negative for signed ones, and 512 for floating-point numbers.
    const CODE: i64;
}

macro_rules! numbers {
    ($($ty:ty = $code:expr;)*) => {
        $(impl Number for $ty {
            const CODE: i64 = $code;
        })*
    };
}

numbers! {
    u8 = 1;
    u16 = 2;
    u32 = 4;
    u64 = 8;
    usize = 8;
    i8 = 0xff;
    i16 = 0xfe;
    i32 = 0xfc;
    i64 = 0xf8;
    isize = 0xf8;
    bool = 1;
    char = 4;
    f32 = 512 + 4;
    f64 = 512 + 8;
}
