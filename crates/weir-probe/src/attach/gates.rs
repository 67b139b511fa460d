//! Opens and shuts the gates of sites.
//!
//! In: which gates, and the address of the lease. Out: bytes in the target's memory, written while it runs. A gate is written
//! whole only before anything leads to it; from then on one bit of it changes ([`weir_rt::abi::SHUT_BIT`]), and a page of them
//! may be written at once: whatever order the kernel copies bytes in, a thread finds each gate open or shut.

use std::io;
use std::ops::Range;

use weir_rt::abi::SHUT_BIT;
use weir_trampoline::island::GATE_BYTES;

use crate::process::memory::Memory;

const PAGE: u64 = 4096;

/// From so many gates of a page on the page is written at once.
const SINGLE_MAX: usize = 4;

/// Shuts all `gates` that lead anywhere: those of any weir.
pub(crate) fn shut(memory: &Memory, gates: Range<u64>) -> io::Result<()> {
    change(memory, gates, |_, word| if word == 0 { 0 } else { word | SHUT_BIT })
}

/// Has `gates`, which nothing leads to yet, lead to `lease`, shut.
pub(crate) fn found(memory: &Memory, gates: Range<u64>, lease: u64) -> io::Result<()> {
    change(memory, gates, |_, _| lease | SHUT_BIT)
}

/// Has the gate at `gate`, which nothing leads to yet, lead to `word` and not to the lease, shut: both are at addresses whose
/// lowest byte is the same.
pub(crate) fn found_apart(memory: &Memory, gate: u64, word: u64) -> io::Result<()> {
    memory.write(gate, &(word | SHUT_BIT).to_le_bytes())
}

/// Opens those of `gates` that are to be, and shuts the others; each is at an address.
pub(crate) fn set(memory: &Memory, gates: &mut [(u64, bool)], lease: u64) -> io::Result<()> {
    let word = |now: u64, is_open: bool| if is_open { now & !SHUT_BIT } else { now | SHUT_BIT };
    gates.sort_unstable();
    for page in gates.chunk_by(|a, b| a.0 / PAGE == b.0 / PAGE) {
        if page.len() < SINGLE_MAX {
            for &(gate, is_open) in page {
                memory.write(gate, &word(lease, is_open).to_le_bytes()[..1])?;
            }
            continue;
        }
        let (first, last) = (page[0].0, page[page.len() - 1].0);
        let mut wanted = page.iter().peekable();
        change(memory, first..last + GATE_BYTES, |at, now| match wanted.next_if(|gate| gate.0 == at) {
            Some(&(_, is_open)) => word(now, is_open),
            None => now,
        })?;
    }
    Ok(())
}

/// Writes what `to` answers for each gate's address and word, a page at a time.
fn change(memory: &Memory, gates: Range<u64>, mut to: impl FnMut(u64, u64) -> u64) -> io::Result<()> {
    let mut at = gates.start;
    while at < gates.end {
        let mut page = vec![0; PAGE.min(gates.end - at) as usize];
        memory.read(at, &mut page)?;
        for (gate, bytes) in
            (at..).step_by(GATE_BYTES as usize).zip(page.chunks_exact_mut(GATE_BYTES as usize))
        {
            let now = u64::from_le_bytes((&*bytes).try_into().expect("eight bytes"));
            bytes.copy_from_slice(&to(gate, now).to_le_bytes());
        }
        memory.write(at, &page)?;
        at += page.len() as u64;
    }
    Ok(())
}
