//! Sides: a program on one engine, ready to run.
//!
//! Every side has memory and maps of its own, filled alike. [`KINDS`] is the table of engines.

mod kernel;
mod local;
mod native;
#[cfg(feature = "peers")]
mod rbpf;
#[cfg(feature = "peers")]
mod sbpf;

use anyhow::{Result, bail};

use crate::program::Program;

pub use self::kernel::Kernel;
pub use self::local::{Checked, Interpreter, Jit, site, verified};
pub use self::native::NativeCode;

/// A program on one engine.
pub trait Side {
    /// Runs the program `times` times, at least once; the lower half of the last answer. Nothing but the runs takes
    /// time that grows with their number.
    fn run(&mut self, times: u32) -> Result<u32>;
}

/// An engine.
#[derive(Debug)]
pub struct Kind {
    /// As in tables and on the command line.
    pub name: &'static str,
    /// Programs may have maps besides their memory.
    pub has_maps: bool,
    pub make: fn(&Program) -> Result<Box<dyn Side + '_>>,
}

/// Every engine that this build has. The first is what the others are compared with.
pub const KINDS: &[Kind] = &[
    Kind { name: "weir", has_maps: true, make: |program| Ok(Box::new(Jit::of(program)?)) },
    Kind { name: "weir-interp", has_maps: true, make: |program| Ok(Box::new(Interpreter::of(program)?)) },
    Kind { name: "kernel", has_maps: true, make: |program| Ok(Box::new(Kernel::of(program)?)) },
    Kind { name: "native", has_maps: false, make: |program| Ok(Box::new(NativeCode::of(program)?)) },
    #[cfg(feature = "peers")]
    Kind {
        name: "rbpf",
        has_maps: false,
        make: |program| Ok(Box::new(rbpf::Rbpf::of(program, rbpf::Engine::Jit)?)),
    },
    #[cfg(feature = "peers")]
    Kind {
        name: "rbpf-interp",
        has_maps: false,
        make: |program| Ok(Box::new(rbpf::Rbpf::of(program, rbpf::Engine::Interpreter)?)),
    },
    #[cfg(feature = "peers")]
    Kind { name: "sbpf", has_maps: false, make: |program| Ok(Box::new(sbpf::Sbpf::of(program)?)) },
];

/// The checking interpreter, which is compared but not timed.
pub const CHECKED: Kind =
    Kind { name: "weir-checked", has_maps: true, make: |program| Ok(Box::new(Checked::of(program)?)) };

/// The engine of that name; `weir-jit` is another name of the first.
pub fn kind(name: &str) -> Result<&'static Kind> {
    let name = if name == "weir-jit" { "weir" } else { name };
    match KINDS.iter().find(|kind| kind.name == name) {
        Some(kind) => Ok(kind),
        None => {
            let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            bail!("no engine {name}; there are {}", known.join(", "))
        }
    }
}

/// The map that `vm.h` keeps a program's memory in; the others hold what [`fill`] gives them.
const MEMORY_MAP: &str = "memory_map";

/// Takes a map's index, key and value.
type SetValue<'a> = &'a mut dyn FnMut(usize, &[u8], &[u8]) -> Result<()>;

/// Sets what maps hold before the first run: memory as prepared, and in each other map of 4-byte keys the entry
/// i → 3 i + 1 (in eight bytes, the rest zero) for each i below its size.
fn fill(program: &Program, set: SetValue<'_>) -> Result<()> {
    for (index, map) in program.object.object.maps.iter().enumerate() {
        if map.name == MEMORY_MAP {
            set(index, &0u32.to_le_bytes(), &program.native.memory)?;
            continue;
        }
        for key in 0..map.max_entries {
            let mut value = vec![0; map.value_bytes as usize];
            let filled = (u64::from(key) * 3 + 1).to_le_bytes();
            let bytes = value.len().min(filled.len());
            value[..bytes].copy_from_slice(&filled[..bytes]);
            set(index, &key.to_le_bytes(), &value)?;
        }
    }
    Ok(())
}
