//! Which frames of a stack are live: that of the program, and one for each local call under way.

use crate::limits::{CALL_DEPTH_MAX, STACK_FRAME_BYTES};

/// How many frames are live, from the top of the stack down: at least one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frames(u32);

impl Frames {
    /// Of a whole stack.
    pub const STACK_BYTES: u32 = STACK_FRAME_BYTES * CALL_DEPTH_MAX;

    /// That of the program alone.
    pub fn one() -> Frames {
        Frames(1)
    }

    /// One more. False where frames end.
    pub fn enter(&mut self) -> bool {
        let has_room = self.0 < CALL_DEPTH_MAX;
        self.0 += u32::from(has_room);
        has_room
    }

    /// The innermost ends.
    pub fn leave(&mut self) {
        assert!(self.0 > 1, "the outermost frame lives as long as the run");
        self.0 -= 1;
    }

    /// Bytes from the top of the stack down that are live.
    pub fn live_bytes(self) -> u32 {
        STACK_FRAME_BYTES * self.0
    }

    /// Bytes from the top of the stack to the r10 of the innermost one.
    pub fn above_innermost(self) -> u32 {
        STACK_FRAME_BYTES * (self.0 - 1)
    }
}
