//! Sets of places that hold values: registers and stack slots, frame by frame.

use crate::limits::CALL_DEPTH_MAX;

/// Registers (bit 64 + n) and stack slots (bit n, counted downwards from r10) of one frame.
pub(crate) type FramePlaces = u128;

pub(crate) const WHOLE_FRAME: FramePlaces = FramePlaces::MAX;

/// Places of every frame. Few programs have more than one, so the others take no room until they are needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    outermost: FramePlaces,
    inner: Option<Box<[FramePlaces; CALL_DEPTH_MAX - 1]>>,
}

impl Places {
    pub(crate) fn of(&self, frame: usize) -> FramePlaces {
        match frame {
            0 => self.outermost,
            _ => self.inner.as_ref().map_or(0, |inner| inner[frame - 1]),
        }
    }

    pub(crate) fn add(&mut self, frame: usize, places: FramePlaces) {
        match frame {
            0 => self.outermost |= places,
            _ => self.inner.get_or_insert_default()[frame - 1] |= places,
        }
    }
}

pub(crate) fn register_place(register: u8) -> FramePlaces {
    1 << (64 + u32::from(register))
}

/// The registers `from..=to`.
pub(crate) fn register_places(from: u8, to: u8) -> FramePlaces {
    (from..=to).fold(0, |places, register| places | register_place(register))
}

/// The slots that the bytes `off..off + bytes` (relative to r10, inside the stack) lie in.
pub(crate) fn stack_places(off: i64, bytes: i64) -> FramePlaces {
    if bytes == 0 {
        return 0;
    }
    (slot_of(off + bytes - 1)..=slot_of(off)).fold(0, |places, slot| places | 1 << slot)
}

/// The slot that byte `off` lies in: 0 is r10 − 8 to r10 − 1.
pub(crate) fn slot_of(off: i64) -> usize {
    ((-1 - off) / 8) as usize
}
