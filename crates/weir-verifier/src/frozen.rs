//! Loads of what maps hold that nobody changes: `const volatile` variables, whose section (`.rodata`) is frozen before a program
//! runs.
//!
//! In: decoded instructions, and the contents of such maps. Out: each load from a constant place in one of them becomes
//! the constant that stands there, so that branches by it are decided, and loops and sizes bounded. Engines do the same
//! ([`InsnFacts::constant`](crate::InsnFacts)): what is proved does not rest on the memory where the map is.
//!
//! Where a pointer is constant is found by one pass over each function: through moves and additions of constants. What
//! goes through the stack is not followed.

use weir_ebpf::MapSpec;
use weir_ebpf::insn::alu;
use weir_ebpf::map::flag;

use crate::decode::{Op, Operand};
use crate::flow::after;
use crate::functions::Functions;

/// The maps of a program, with the contents of those that nobody changes.
#[derive(Clone, Copy, Debug)]
pub struct Maps<'a> {
    pub(crate) specs: &'a [MapSpec],
    contents: &'a [Option<&'a [u8]>],
}

impl<'a> Maps<'a> {
    /// `contents`, by map: of an array that programs only read (`BPF_F_RDONLY_PROG`), what its only value holds from
    /// before the program runs until after it. Other maps' are not looked at.
    pub fn frozen(specs: &'a [MapSpec], contents: &'a [Option<&'a [u8]>]) -> Maps<'a> {
        Maps { specs, contents }
    }

    /// What `bytes` bytes at `offset` of the map's value are.
    fn number(&self, map: u32, offset: i64, bytes: u32) -> Option<u64> {
        let spec = self.specs.get(map as usize)?;
        if !spec.has(flag::RDONLY_PROG) || !spec.kind.is_array() || spec.kind.is_per_cpu() {
            return None;
        }
        let contents = (*self.contents.get(map as usize)?)?;
        let from = usize::try_from(offset).ok()?;
        let bytes = contents.get(from..from.checked_add(bytes as usize)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

impl<'a> From<&'a [MapSpec]> for Maps<'a> {
    fn from(specs: &'a [MapSpec]) -> Maps<'a> {
        Maps { specs, contents: &[] }
    }
}

impl<'a> From<&'a Vec<MapSpec>> for Maps<'a> {
    fn from(specs: &'a Vec<MapSpec>) -> Maps<'a> {
        Maps::from(&specs[..])
    }
}

impl<'a, const COUNT: usize> From<&'a [MapSpec; COUNT]> for Maps<'a> {
    fn from(specs: &'a [MapSpec; COUNT]) -> Maps<'a> {
        Maps::from(&specs[..])
    }
}

/// By register: the map and the offset that it points to.
type Pointers = [Option<(u32, i64)>; 11];

/// By instruction: the constant that it loads. `ops` load them.
pub(crate) fn fold(ops: &mut [Op], functions: &Functions, maps: Maps<'_>) -> Vec<Option<u64>> {
    let mut constants = vec![None; ops.len()];
    if maps.contents.iter().all(Option::is_none) {
        return constants;
    }
    let mut before: Vec<Option<Pointers>> = vec![None; ops.len()];
    let mut work: Vec<usize> = functions.starts().to_vec();
    for start in &work {
        before[*start] = Some([None; 11]);
    }
    while let Some(at) = work.pop() {
        let Some(mut now) = before[at] else { continue };
        step(&mut now, &ops[at]);
        for next in after(ops, at).into_iter().flatten() {
            let joined = match before[next] {
                None => now,
                Some(known) => std::array::from_fn(|at| known[at].filter(|_| known[at] == now[at])),
            };
            if before[next] != Some(joined) {
                before[next] = Some(joined);
                work.push(next);
            }
        }
    }
    for (at, op) in ops.iter_mut().enumerate() {
        let Op::Load { dst, base, off, bytes, sign_extend } = *op else { continue };
        let pointer = before[at].and_then(|pointers| pointers[usize::from(base)]);
        let Some((map, offset)) = pointer else { continue };
        let Some(number) = maps.number(map, offset + i64::from(off), bytes) else { continue };
        let unused = 64 - 8 * bytes;
        let value = if sign_extend { ((number << unused) as i64 >> unused) as u64 } else { number };
        *op = Op::Constant { dst, value };
        constants[at] = Some(value);
    }
    constants
}

fn step(now: &mut Pointers, op: &Op) {
    match *op {
        Op::MapValue { dst, index, offset } => now[usize::from(dst)] = Some((index, offset.into())),
        Op::Arithmetic { operation: alu::MOV, off: 0, wide: true, dst, src: Operand::Register(src) } => {
            now[usize::from(dst)] = now[usize::from(src)];
        }
        Op::Arithmetic { operation: alu::ADD, wide: true, dst, src: Operand::Immediate(by), .. } => {
            let moved = now[usize::from(dst)].and_then(|(map, at)| Some((map, at.checked_add(by.into())?)));
            now[usize::from(dst)] = moved;
        }
        Op::Arithmetic { dst, .. }
        | Op::ByteOrder { dst, .. }
        | Op::Load { dst, .. }
        | Op::LoadAcquire { dst, .. }
        | Op::Constant { dst, .. }
        | Op::Map { dst, .. }
        | Op::Function { dst, .. } => now[usize::from(dst)] = None,
        Op::Atomic { src, .. } => {
            now[usize::from(src)] = None;
            now[0] = None;
        }
        Op::PacketLoad { .. }
        | Op::Call { .. }
        | Op::CallUnknown { .. }
        | Op::CallKernel { .. }
        | Op::CallLocal { .. } => now[..6].fill(None),
        Op::Store { .. }
        | Op::StoreRelease { .. }
        | Op::Jump { .. }
        | Op::Branch { .. }
        | Op::MayGoto { .. }
        | Op::Exit
        | Op::Second => {}
    }
}
