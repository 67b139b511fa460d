//! The maps of a run that are in the kernel.
//!
//! In: a compiled script. Out: its maps, made, as a [`Store`]. One that the kernel fails to read or change says nothing; the first such failure is kept, and
//! ends the run ([`InKernel::check`]). Deliberately not here: programs ([`kernel`](mod@crate::kernel)), and whose a map is
//! ([`both`](mod@crate::both)).

use std::cell::RefCell;

use weir_codegen::Compiled;
use weir_ebpf::elf::ObjectFile;
use weir_kernel::{KernelError, Maps};

use crate::clock::now_ns;
use crate::failure::Failure;
use crate::store::{Store, globals};

/// The kernel's maps. The first failure to read or change one is kept, and ends the run.
#[derive(Debug)]
pub(crate) struct InKernel {
    pub(crate) maps: Maps,
    failed: RefCell<Option<KernelError>>,
}

impl InKernel {
    /// Empty, but for tables of automata.
    pub(crate) fn create(compiled: &Compiled) -> Result<InKernel, Failure> {
        let mut file = ObjectFile::of(compiled.object.clone());
        if let Some((map, contents)) = &compiled.automata {
            file.maps[*map as usize].initial = Some(contents.clone());
        }
        let maps = Maps::of(&file)?;
        Ok(InKernel { maps, failed: RefCell::default() })
    }

    /// The clock of `elapsed`; and which process the command is.
    pub(crate) fn start_clock(&self, compiled: &Compiled, command: Option<i32>) -> Result<(), Failure> {
        Ok(self.maps.update(compiled.globals as usize, &[0; 4], &globals(now_ns(), command))?)
    }

    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.failed.take().map_or(Ok(()), |error| Err(error.into()))
    }

    fn kept<T: Default>(&self, done: Result<T, KernelError>) -> T {
        done.unwrap_or_else(|error| {
            self.failed.borrow_mut().get_or_insert(error);
            T::default()
        })
    }
}

impl Store for InKernel {
    fn lookup(&self, map: u32, key: &[u8]) -> Option<Vec<u8>> {
        self.kept(self.maps.lookup(map as usize, key))
    }

    fn entries(&self, map: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.kept(self.maps.entries(map as usize))
    }

    fn set(&self, map: u32, key: &[u8], value: &[u8]) {
        self.kept(self.maps.update(map as usize, key, value));
    }

    fn clear(&self, map: u32) {
        self.kept(self.maps.clear(map as usize));
    }

    fn zero(&self, map: u32) {
        self.kept(self.maps.zero(map as usize));
    }
}
