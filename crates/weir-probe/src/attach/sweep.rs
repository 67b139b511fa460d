//! Frees the records of replaced return addresses whose calls never come back: they were jumped over, or their thread
//! has ended.
//!
//! In: a stopped target, and where its records are. Out: how many were freed. The records are the target's own memory
//! and may say anything; at worst one of weir's own records is freed too early.

use weir_trampoline::replace::Table;

use crate::process::stop::Stopped;
use crate::process::target::Target;
use crate::refusal::Error;

/// Frees records whose return address is not their stub any more; none while a thread may be about to free one.
pub(crate) fn sweep(target: &Target, stopped: &Stopped, table: &Table) -> Result<usize, Error> {
    let leave = table.leave();
    let stacks = target.stacks();
    for tid in stopped.threads() {
        let registers = stopped.registers(tid)?;
        let is_leaving = |word: u64| leave.contains(&word);
        let found = target.scan_stack(&stacks, &registers, &is_leaving);
        if is_leaving(registers.instruction_pointer()) || !found.words.is_empty() {
            return Ok(0);
        }
    }
    let mut records = vec![0; table.records_bytes() as usize];
    let read = target.memory.read(table.records, &mut records);
    read.map_err(|source| Error::system("reading records of return addresses", source))?;
    let mut freed = 0;
    for (offset, slot, stub) in table.waiting(&records) {
        if target.memory.read_u64(slot).is_ok_and(|word| word == stub) {
            continue;
        }
        for record in table.chain(&records, offset) {
            let written = target.memory.write(table.records + record as u64, &[0; 8]);
            written.map_err(|source| Error::system("freeing a record", source))?;
            freed += 1;
        }
    }
    Ok(freed)
}
