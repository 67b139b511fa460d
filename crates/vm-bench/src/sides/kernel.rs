//! The kernel's JIT, through BPF_PROG_TEST_RUN.

use anyhow::{Context, Result, ensure};
use testkit::kernel::{self, Loaded};
use weir_ebpf::MapSpec;

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
            let value = for_every_cpu(&object.maps[map], value)?;
            loaded.update(map, key, &value).with_context(|| object.maps[map].name.clone())
        })?;
        Ok(Kernel { loaded })
    }
}

impl Side for Kernel {
    fn run(&mut self, times: u32) -> Result<u32> {
        Ok(self.loaded.repeat(0, times).context("BPF_PROG_TEST_RUN")?.r0)
    }
}

/// bpf(2) takes the value of every possible CPU at once, each padded to 8 bytes. The first gets the value: what is read
/// is the sum, and no program reads it.
fn for_every_cpu(map: &MapSpec, value: &[u8]) -> Result<Vec<u8>> {
    if !map.kind.is_per_cpu() {
        return Ok(value.to_vec());
    }
    let mut values = vec![0; value.len().next_multiple_of(8) * weir_rt::local::possible_cpus() as usize];
    values[..value.len()].copy_from_slice(value);
    Ok(values)
}
