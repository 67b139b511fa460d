//! What a whole function says about where its code may go.
//!
//! In: the bytes of a function, decoded from its first to its last. Out: a [`Body`]: the targets of its direct
//! branches, the addresses it takes, and its computed jumps, with the way in which each gets its target.
//!
//! A jump through memory (`jmp *16(%rax)`) gets its target from a stored pointer, and every stored pointer is looked
//! at elsewhere ([`crate::incoming`]): by its relocation, or by the `lea` that made it. A jump through a register
//! may add to a base first: that base is a table whose entries are looked at, or text of the function itself, and then
//! nobody knows where it leads.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};
use weir_symbols::{Binary, LinkAddr};

use crate::parallel;
use crate::refusal::Refusal;

/// Functions for which a second thread pays.
const PART_FUNCTIONS_MIN: usize = 500;

/// Where one function's code may go.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Link address of the first byte.
    pub address: u64,
    pub bytes: u64,
    /// Targets of direct branches and calls, sorted.
    pub targets: Vec<u64>,
    /// Addresses that the function takes with a RIP-relative `lea`, sorted: possible bases of its jump tables.
    pub taken: Vec<u64>,
    /// Offsets of jumps through registers.
    pub computed: Vec<u64>,
    /// Of those, the first whose register was computed rather than loaded.
    pub calculated: Option<u64>,
    /// Offset of the first bytes that are no instruction.
    pub undecodable: Option<u64>,
}

/// Decodes the function at link address `address`.
pub fn read(address: u64, bytes: &[u8]) -> Body {
    let mut body = Body { address, bytes: bytes.len() as u64, ..Body::default() };
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            body.undecodable = Some(instruction.ip() - address);
            break;
        }
        body.targets.extend(near_target(&instruction));
        if instruction.code() == Code::Lea_r64_m && instruction.is_ip_rel_memory_operand() {
            body.taken.push(instruction.ip_rel_memory_address());
        }
        if is_computed(&instruction) {
            body.computed.push(instruction.ip() - address);
        }
    }
    for addresses in [&mut body.targets, &mut body.taken] {
        addresses.sort_unstable();
        addresses.dedup();
    }
    if !body.computed.is_empty() {
        body.calculated = first_calculated(address, bytes);
    }
    body
}

/// The bodies of one binary's functions, each decoded when it is first asked for.
#[derive(Debug)]
pub struct Bodies<'a> {
    binary: &'a Binary,
    known: HashMap<(u64, u64), Arc<Body>>,
}

impl<'a> Bodies<'a> {
    pub fn new(binary: &'a Binary) -> Bodies<'a> {
        Bodies { binary, known: HashMap::new() }
    }

    pub fn binary(&self) -> &'a Binary {
        self.binary
    }

    /// `None` where the file does not hold all of `range`.
    pub fn of(&mut self, range: Range<u64>) -> Option<Arc<Body>> {
        if let Some(known) = self.known.get(&(range.start, range.end)) {
            return Some(known.clone());
        }
        let length = range.end.checked_sub(range.start)?;
        let body = Arc::new(read(range.start, self.binary.bytes(LinkAddr(range.start), length as usize)?));
        self.known.insert((range.start, range.end), body.clone());
        Some(body)
    }

    /// Every function of the binary that a symbol or unwind information names, overlapping ones among them.
    pub fn all(&mut self) -> Vec<Arc<Body>> {
        let symbols = self.binary.functions().iter().filter_map(|f| Some(f.address.0..f.end()?.0));
        let frames = self.binary.frame_ranges().iter().map(|range| range.start.0..range.end.0);
        let mut ranges: Vec<Range<u64>> = symbols.chain(frames).collect();
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges.dedup();
        self.read_together(&ranges);
        ranges.into_iter().filter_map(|range| self.of(range)).collect()
    }

    /// Decodes those of `ranges` that are not known, on several threads.
    fn read_together(&mut self, ranges: &[Range<u64>]) {
        let binary = self.binary;
        let unknown = ranges.iter().filter(|range| !self.known.contains_key(&(range.start, range.end)));
        let unknown: Vec<Range<u64>> = unknown.cloned().collect();
        let body = |range: &Range<u64>| {
            let length = range.end.checked_sub(range.start)?;
            Some(Arc::new(read(range.start, binary.bytes(LinkAddr(range.start), length as usize)?)))
        };
        let parts = parallel::parts(unknown.len(), PART_FUNCTIONS_MIN);
        let bodies = parallel::map(parts, |part| unknown[part].iter().map(body).collect::<Vec<_>>());
        let bodies = unknown.iter().zip(bodies.into_iter().flatten());
        self.known.extend(bodies.filter_map(|(range, body)| Some(((range.start, range.end), body?))));
    }
}

impl Body {
    /// The jump whose targets cannot all be found, if there is one; `is_movable` says that addresses in data have
    /// relocations (else every word of the file is looked at).
    pub fn unknown_jump(&self, is_movable: bool) -> Result<(), Refusal> {
        let own = self.address..self.address + self.bytes;
        let takes_own_text = self.taken.iter().any(|taken| own.contains(taken));
        let offset = match self.computed.first() {
            Some(&offset) if takes_own_text => Some(offset),
            Some(_) if self.taken.is_empty() && is_movable => self.calculated,
            _ => None,
        };
        offset.map_or(Ok(()), |offset| Err(Refusal::IndirectJump { offset }))
    }
}

/// The target of a direct branch or call.
pub fn near_target(instruction: &Instruction) -> Option<u64> {
    matches!(instruction.op0_kind(), OpKind::NearBranch64).then(|| instruction.near_branch_target())
}

fn is_computed(instruction: &Instruction) -> bool {
    instruction.flow_control() == FlowControl::IndirectBranch && instruction.op0_kind() == OpKind::Register
}

/// Offset of the first computed jump whose register was calculated.
fn first_calculated(address: u64, bytes: &[u8]) -> Option<u64> {
    let mut writers = Writers::new();
    let mut jumps = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).into_iter();
    jumps.find_map(|instruction| {
        let is_calculated = is_computed(&instruction) && writers.is_calculated(instruction.op0_register());
        writers.note(&instruction);
        is_calculated.then(|| instruction.ip() - address)
    })
}

/// For each general register, whether the instruction that wrote it last, in the order of the text, calculated it.
struct Writers {
    calculated: [bool; 16],
    factory: InstructionInfoFactory,
}

impl Writers {
    fn new() -> Writers {
        Writers { calculated: [false; 16], factory: InstructionInfoFactory::new() }
    }

    fn note(&mut self, instruction: &Instruction) {
        let copies = matches!(
            instruction.mnemonic(),
            Mnemonic::Mov
                | Mnemonic::Pop
                | Mnemonic::Xchg
                | Mnemonic::Call
                | Mnemonic::Leave
                | Mnemonic::Enter
        );
        for used in self.factory.info(instruction).used_registers() {
            let register = used.register().full_register();
            let writes = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            if writes && let Some(slot) = slot(register) {
                self.calculated[slot] = !copies;
            }
        }
    }

    fn is_calculated(&self, register: Register) -> bool {
        slot(register.full_register()).is_none_or(|slot| self.calculated[slot])
    }
}

fn slot(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason code for a multi-instruction window in position-independent code at 0x1000.
    fn check(bytes: &[u8]) -> Option<String> {
        read(0x1000, bytes).unknown_jump(true).err().map(|refusal| refusal.code())
    }

    #[test]
    fn remembers_computed_jumps_and_table_bases() {
        // lea 0x100(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp *%rax
        let bytes = [0x48, 0x8d, 0x15, 0, 1, 0, 0, 0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0];
        let body = read(0x1000, &bytes);
        assert_eq!((body.computed, body.calculated, body.taken), (vec![0xe], Some(0xe), vec![0x1107]));
        assert_eq!(check(&bytes), None, "the table is looked at");
    }

    #[test]
    fn trusts_jumps_through_memory_and_loaded_registers() {
        assert_eq!(check(&[0x48, 0x8b, 0x07, 0xff, 0x60, 0x10]), None); // mov (%rdi),%rax; jmp *16(%rax)
        assert_eq!(check(&[0x48, 0x8b, 0x47, 0x30, 0xff, 0xe0]), None); // mov 48(%rdi),%rax; jmp *%rax
    }

    #[test]
    fn refuses_jumps_that_are_calculated_from_nothing_known() {
        let refused = Some("indirect-jump".to_owned());
        assert_eq!(check(&[0x48, 0x01, 0xd0, 0xff, 0xe0]), refused); // add %rdx,%rax; jmp *%rax
        // lea 2(%rip),%rax (its own text); jmp *%rax
        assert_eq!(check(&[0x48, 0x8d, 0x05, 2, 0, 0, 0, 0xff, 0xe0, 0x90, 0x90]), refused);
    }
}
