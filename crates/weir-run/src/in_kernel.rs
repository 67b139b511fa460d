//! The maps of a run that are in the kernel.
//!
//! In: a compiled script. Out: its maps, made, as a [`Store`]. One that the kernel fails to read or change says nothing; the first such failure is kept, and
//! ends the run ([`InKernel::check`]). Deliberately not here: programs ([`kernel`](mod@crate::kernel)), and whose a map is
//! ([`both`](mod@crate::both)).

use std::cell::RefCell;
use std::os::fd::{AsFd as _, OwnedFd};

use anyhow::{Context as _, anyhow};
use weir_codegen::Compiled;
use weir_ebpf::elf::ObjectFile;
use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec};
use weir_kernel::{KernelError, Maps, Scalar, Tables};
use weir_rt::segment::{Segment, SegmentLayout};

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

    /// From now on programs are loaded so that they have those maps in the segment that both sides see.
    pub(crate) fn share(&mut self, segment: &Segment) -> Result<(), Failure> {
        let Some(array) = segment.in_kernel() else { return Ok(()) };
        let array =
            array.try_clone_to_owned().context("a descriptor of the maps").map_err(Failure::Machine)?;
        let layout = segment.layout();
        let shared = || layout.maps.iter().enumerate().filter(|(_, map)| map.is_in_kernel());
        let tables =
            shared().filter(|(_, map)| map.spec.kind.is_hash()).map(|(index, _)| segment.table(index));
        let scalars = shared()
            .filter(|(_, map)| map.spec.kind.is_array())
            .map(|(index, map)| Scalar { map: index as u32, offset: map.data_offset - layout.kernel_offset });
        let (bytes, tables, scalars) = (layout.kernel_bytes(), tables.collect(), scalars.collect());
        let index = self.maps.append(Maps::adopt(array_of(bytes), array)?);
        self.maps.use_tables(Tables { array: index, bytes, tables, scalars });
        Ok(())
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

/// The array of so many bytes that lies over the end of the segment, where both sides see some of the maps.
fn array_of(bytes: u64) -> MapSpec {
    // LIMIT: `array` refuses more than fit.
    let spec = MapSpec::new(".in_kernel", MapKind::Array, 4, bytes as u32, 1);
    MapSpec { flags: flag::MMAPABLE, ..spec }
}

/// Bytes of a value that the kernel lets programs reach (`BPF_MAX_VAR_OFF`).
const ARRAY_BYTES_MAX: u64 = 1 << 29;

/// Makes that array, where there is to be one.
pub(crate) fn array(layout: &SegmentLayout) -> Result<Option<OwnedFd>, Failure> {
    let bytes = layout.kernel_bytes();
    if bytes == 0 {
        return Ok(None);
    }
    if bytes > ARRAY_BYTES_MAX {
        return Err(Failure::Refused(anyhow!(
            "the maps that processes and the kernel share need {bytes} bytes; the kernel lets programs reach {ARRAY_BYTES_MAX}: set a lower max_map_keys"
        )));
    }
    let maps = Maps::create(&[array_of(bytes)])?;
    let array = maps.fd(0).as_fd().try_clone_to_owned();
    Ok(Some(array.context("a descriptor of the maps").map_err(Failure::Machine)?))
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
