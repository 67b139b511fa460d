//! `weir bpf run --engine kernel`: the object's maps with their first contents, and one program, in the kernel. Its own
//! verifier judges the program; weir's does not.

use weir_ebpf::ProgramKind;
use weir_ebpf::elf::ObjectFile;
use weir_kernel::{Input, Loaded, Maps};

use crate::failure::Failure;

/// A program in the kernel, and what it gets.
#[derive(Debug)]
pub(super) struct InKernel {
    program: Loaded,
    /// Held as long as the program.
    _maps: Maps,
    bytes: Vec<u8>,
}

impl InKernel {
    pub(super) fn load(file: &ObjectFile, index: usize, bytes: Option<&[u8]>) -> Result<InKernel, Failure> {
        let maps = Maps::of(file)?;
        let program = &file.object.programs[index];
        let loaded = weir_kernel::load(program, &maps)?;
        for (map, origin) in file.maps.iter().enumerate() {
            for (slot, other) in &origin.programs {
                let other = weir_kernel::load(&file.object.programs[*other], &maps)?;
                maps.set_program(map, *slot, &other)?;
            }
        }
        let bytes = match (program.kind, bytes) {
            (ProgramKind::Memory { bytes: wanted }, None) => vec![0; wanted as usize],
            (_, bytes) => bytes.unwrap_or_default().to_vec(),
        };
        Ok(InKernel { program: loaded, _maps: maps, bytes })
    }

    /// r0 of the last of `repeat` runs, and the nanoseconds of one.
    pub(super) fn run(&self, repeat: u32) -> Result<(u64, u32), Failure> {
        let input = Input { bytes: &self.bytes, context: &[] };
        let ran = self.program.run(input, repeat)?;
        Ok((ran.r0, ran.nanoseconds))
    }
}
