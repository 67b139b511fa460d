//! The words of an access: its width, and what an atomic operation does.

/// Bytes of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// One.
    B1,
    /// Two.
    B2,
    /// Four.
    B4,
    /// Eight.
    B8,
}

/// An atomic operation with its operand (RFC 9669, 5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Adds it.
    Add(u64),
    /// Sets its bits.
    Or(u64),
    /// Keeps its bits.
    And(u64),
    /// Changes its bits.
    Xor(u64),
    /// Puts it there.
    Exchange(u64),
    /// Puts `new` there if there is `expected`.
    CompareExchange {
        /// What must be there.
        expected: u64,
        /// What is put there.
        new: u64,
    },
}

impl Width {
    /// How many that are.
    pub fn bytes(self) -> u64 {
        match self {
            Width::B1 => 1,
            Width::B2 => 2,
            Width::B4 => 4,
            Width::B8 => 8,
        }
    }

    /// The low bytes of a number that fit.
    pub fn cut(self, value: u64) -> u64 {
        value & (u64::MAX >> (64 - 8 * self.bytes()))
    }
}

impl AtomicOp {
    /// What it leaves where `old` was: both numbers of this width.
    pub fn of(self, old: u64, width: Width) -> u64 {
        width.cut(match self {
            AtomicOp::Add(by) => old.wrapping_add(by),
            AtomicOp::Or(by) => old | by,
            AtomicOp::And(by) => old & by,
            AtomicOp::Xor(by) => old ^ by,
            AtomicOp::Exchange(new) => new,
            AtomicOp::CompareExchange { expected, new } if old == width.cut(expected) => new,
            AtomicOp::CompareExchange { .. } => old,
        })
    }
}
