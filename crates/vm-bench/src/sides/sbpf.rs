//! solana-sbpf's JIT.
//!
//! Its dialect v3 is bytecode of `-mcpu=v2`: it sign-extends the results of 32-bit arithmetic, which clang does not
//! use for that cpu, and takes calls as offsets. Everything that costs time and can be off is off: the instruction
//! meter, padding with random instructions, disguised constants; memory is found by region, the faster of its two ways.
//! The translation of addresses stays, since without it programs are not confined.

use std::ptr::NonNull;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use solana_sbpf::aligned_memory::AlignedMemory;
use solana_sbpf::ebpf;
use solana_sbpf::elf::Executable;
use solana_sbpf::memory_region::{MemoryMapping, MemoryRegion};
use solana_sbpf::program::{BuiltinProgram, FunctionRegistry, SBPFVersion};
use solana_sbpf::verifier::RequisiteVerifier;
use solana_sbpf::vm::{Config, ContextObject, EbpfVm, ExecutionMode};

use crate::program::Program;
use crate::sides::Side;
use crate::sides::native::words;

/// A program in sbpf, with memory of its own.
pub(super) struct Sbpf {
    loader: Arc<BuiltinProgram<Reach>>,
    executable: Executable<Reach>,
    context: Reach,
    stack_bytes: usize,
    /// What the mapping refers to.
    _stack: AlignedMemory<{ ebpf::HOST_ALIGN }>,
    _memory: Vec<u64>,
}

/// What a program can reach.
struct Reach {
    mapping: MemoryMapping,
}

impl ContextObject for Reach {
    fn consume(&mut self, _: u64) {}

    fn get_remaining(&self) -> u64 {
        u64::MAX
    }

    fn active_mapping_ptr(&mut self) -> NonNull<MemoryMapping> {
        NonNull::from(&mut self.mapping)
    }
}

const VERSION: SBPFVersion = SBPFVersion::V3;

impl Sbpf {
    pub(super) fn of(program: &Program) -> Result<Sbpf> {
        let raw = program.raw.as_ref().context("needs maps")?;
        let config = Config {
            enable_instruction_meter: false,
            noop_instruction_rate: 0,
            sanitize_user_provided_values: false,
            aligned_memory_mapping: true,
            ..Config::default()
        };
        let loader = Arc::new(BuiltinProgram::new_loader(config.clone()));
        let registry = FunctionRegistry::default();
        let executable = Executable::from_text_bytes(&raw.old, Arc::clone(&loader), VERSION, registry)
            .map_err(|error| anyhow!("{error}"))?;
        executable.verify::<RequisiteVerifier>().map_err(|error| anyhow!("{error}"))?;
        executable.jit_compile().map_err(|error| anyhow!("{error}"))?;
        let mut stack = AlignedMemory::zero_filled(config.stack_size());
        let stack_bytes = stack.len();
        let mut memory = words(&program.native.memory);
        let bytes =
            std::ptr::slice_from_raw_parts_mut(memory.as_mut_ptr().cast::<u8>(), program.native.memory.len());
        let regions = vec![
            executable.get_ro_region(),
            MemoryRegion::new(&mut stack, ebpf::MM_STACK_START),
            MemoryRegion::new(bytes, ebpf::MM_INPUT_START),
        ];
        // SAFETY: stack and memory live as long as the mapping, at the same places, and may hold any bytes.
        let mapping =
            unsafe { MemoryMapping::new(regions, &config, VERSION) }.map_err(|error| anyhow!("{error}"))?;
        Ok(Sbpf {
            loader,
            executable,
            context: Reach { mapping },
            stack_bytes,
            _stack: stack,
            _memory: memory,
        })
    }
}

impl Side for Sbpf {
    fn run(&mut self, times: u32) -> Result<u32> {
        let mut machine = EbpfVm::new(Arc::clone(&self.loader), VERSION, &mut self.context, self.stack_bytes);
        machine.registers[1] = ebpf::MM_INPUT_START;
        let registers = machine.registers;
        let mut answer = 0;
        for _ in 0..times {
            machine.registers = registers;
            let (_, result) = machine.execute_program(&self.executable, &mut ExecutionMode::Jit, &mut []);
            answer = Result::from(result).map_err(|error| anyhow!("{error}"))?;
        }
        Ok(answer as u32)
    }
}
