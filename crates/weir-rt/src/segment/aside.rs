//! Records that were copied out of a ring faster than they can be worked on: a burst that would fill the ring.
//!
//! In: records as they lie in a ring, the oldest first. Out: the same, in that order. It is this process's own memory, which grows by pieces and
//! shrinks again as they are worked off. A record takes 16 bytes (its ticks, its length), and its payload in whole words. Pieces are of huge
//! pages, where there are some: the faults of small ones take as long as the copying.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, MmapMut, MmapOptions};

/// Bytes of a piece, unless one record has more.
const PIECE_BYTES: usize = 4 << 20;

/// Bytes before a payload.
const HEAD_BYTES: usize = 16;

#[derive(Debug, Default)]
pub struct Aside {
    pieces: VecDeque<Piece>,
    /// What of the first piece was worked off.
    at: usize,
    /// That wait.
    bytes: usize,
}

impl Aside {
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a record of `size` bytes. False, and nothing added, where there is no memory for it.
    #[inline]
    pub(super) fn push(&mut self, ticks: u64, size: usize, payload: &[AtomicU64]) -> bool {
        let bytes = HEAD_BYTES + 8 * payload.len();
        let has_room = |piece: &Piece| piece.used + bytes <= piece.memory.len();
        if !self.pieces.back().is_some_and(has_room) {
            let Some(piece) = Piece::of(PIECE_BYTES.max(bytes)) else { return false };
            self.pieces.push_back(piece);
        }
        let Some(piece) = self.pieces.back_mut() else { return false };
        let (head, rest) = piece.memory[piece.used..piece.used + bytes].split_at_mut(HEAD_BYTES);
        piece.used += bytes;
        head[..8].copy_from_slice(&ticks.to_le_bytes());
        head[8..].copy_from_slice(&(size as u64).to_le_bytes());
        for (to, word) in rest.chunks_exact_mut(8).zip(payload) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        self.bytes += bytes;
        true
    }

    /// Gives `work` so many of the oldest records at most, and forgets them: bytes and ticks. How many those were.
    pub fn each(&mut self, most: usize, mut work: impl FnMut(&[u8], u64)) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some(piece) = self.pieces.front()
        {
            let (memory, used) = (&piece.memory, piece.used);
            let word = |at: usize| u64::from_le_bytes(memory[at..at + 8].try_into().expect("eight bytes"));
            while taken < most && self.at < used {
                let (ticks, size) = (word(self.at), word(self.at + 8) as usize);
                work(&memory[self.at + HEAD_BYTES..][..size], ticks);
                let bytes = HEAD_BYTES + size.next_multiple_of(8);
                self.at += bytes;
                self.bytes -= bytes;
                taken += 1;
            }
            if self.at == used {
                self.pieces.pop_front();
                self.at = 0;
            }
        }
        taken
    }
}

/// Some of them, one after the other.
#[derive(Debug)]
struct Piece {
    memory: MmapMut,
    used: usize,
}

impl Piece {
    fn of(bytes: usize) -> Option<Piece> {
        let memory = MmapOptions::new().len(bytes).map_anon().ok()?;
        // Without huge pages it is slower, and the same.
        let _ = memory.advise(Advice::HugePage);
        Some(Piece { memory, used: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_order_and_their_memory_goes() {
        let mut aside = Aside::default();
        let record = |n: u64| vec![n as u8; 1 + n as usize * 37 % 5000];
        let push = |aside: &mut Aside, n: u64| {
            let mut bytes = record(n);
            let size = bytes.len();
            bytes.resize(size.next_multiple_of(8), 0xff);
            let words = bytes
                .chunks_exact(8)
                .map(|word| AtomicU64::new(u64::from_le_bytes(word.try_into().unwrap())));
            assert!(aside.push(n * 3, size, &words.collect::<Vec<_>>()));
        };
        let (mut expected, mut next) = (0, 0);
        for round in 0..50 {
            for _ in 0..100 {
                push(&mut aside, next);
                next += 1;
            }
            let most = if round % 2 == 0 { 37 } else { 163 };
            let taken = aside.each(most, |bytes, ticks| {
                assert!(bytes == record(expected) && ticks == expected * 3, "record {expected}");
                expected += 1;
            });
            assert!(taken == most || aside.is_empty(), "{taken} of {most}");
        }
        aside.each(usize::MAX, |bytes, _| {
            assert!(bytes == record(expected));
            expected += 1;
        });
        assert_eq!((expected, aside.is_empty(), aside.bytes(), aside.pieces.len()), (next, true, 0, 0));
        // One that is larger than a piece.
        let words: Vec<AtomicU64> = (0..1_000_000).map(AtomicU64::new).collect();
        assert!(aside.push(1, 8 * words.len(), &words));
        assert_eq!(aside.each(9, |bytes, _| assert_eq!(bytes.len(), 8_000_000)), 1);
    }
}
