//! The kernel's JIT, through BPF_PROG_TEST_RUN.

use anyhow::{Context, Result, ensure};
use testkit::kernel::{self, Loaded};

use crate::program::Program;
use crate::sides::{Side, fill};

/// A program in the running kernel.
#[derive(Debug)]
pub struct Kernel {
    loaded: Loaded,
}

impl Kernel {
    pub fn of(program: &Program) -> Result<Kernel> {
        let object = &program.object.object;
        let jit = std::fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").unwrap_or_default();
        ensure!(jit.trim() == "1", "net.core.bpf_jit_enable is {:?}, not 1", jit.trim());
        let loaded = kernel::load_filter(object)?;
        fill(program, &mut |map, key, value| {
            loaded.maps.update(map, key, value).with_context(|| object.maps[map].name.clone())
        })?;
        Ok(Kernel { loaded })
    }
}

impl Side for Kernel {
    fn run(&mut self, times: u32) -> Result<u32> {
        Ok(self.loaded.repeat(0, times)?.r0 as u32)
    }
}
