//! An open object, and programs that were loaded from it: weir-bpf's, with C's names, numbers and errors.

use std::ffi::{CString, c_int};
use std::path::Path;

use weir_bpf::{Engine, Map, MapSpec, Program};

use crate::MapInfo;
use crate::error::{E2BIG, EINVAL, ENOENT, Error, Result};

/// `struct weir_bpf_object`.
#[derive(Debug)]
pub struct Object {
    object: weir_bpf::Object,
    program_names: Vec<CString>,
    map_names: Vec<CString>,
}

/// A map by its place in the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapNumber(pub(crate) c_int);

/// The engine of a number.
pub(crate) fn engine(number: c_int) -> Result<Engine> {
    match number {
        0 => Ok(Engine::Interpreter),
        1 => Ok(Engine::Jit),
        2 => Ok(Engine::CheckingInterpreter),
        other => Err(Error::new(
            EINVAL,
            format!(
                "there is no engine {other}; 0 is the interpreter, 1 the JIT, 2 the checking interpreter"
            ),
        )),
    }
}

impl Object {
    pub(crate) fn open(bytes: &[u8], btf: Option<&[u8]>) -> Result<Object> {
        Ok(Object::of(weir_bpf::Object::read_for(bytes, btf)?))
    }

    pub(crate) fn open_file(path: &Path, btf: Option<&[u8]>) -> Result<Object> {
        Ok(Object::of(weir_bpf::Object::open_for(path, btf)?))
    }

    pub(crate) fn of_instructions(bytes: &[u8]) -> Result<Object> {
        Ok(Object::of(weir_bpf::Object::of_instructions(bytes)?))
    }

    fn of(object: weir_bpf::Object) -> Object {
        let program_names = object.programs().map(c_string).collect();
        let map_names = object.maps().map(|map| c_string(&map.spec().name)).collect();
        Object { object, program_names, map_names }
    }

    pub(crate) fn program_names(&self) -> &[CString] {
        &self.program_names
    }

    pub(crate) fn verify(&self, name: Option<&str>, memory_size: usize) -> Result<()> {
        let name = self.program_name(name)?;
        Ok(self.object.verify(name, memory(memory_size)?).map(|_| ())?)
    }

    pub(crate) fn load(&self, name: Option<&str>, engine: Engine, memory_size: usize) -> Result<Program> {
        let name = self.program_name(name)?;
        Ok(self.object.load_for(name, engine, memory(memory_size)?)?)
    }

    pub(crate) fn load_limited(
        &self,
        name: Option<&str>,
        engine: Engine,
        memory_size: usize,
        rounds: u32,
    ) -> Result<Program> {
        let name = self.program_name(name)?;
        Ok(self.object.load_limited(name, engine, memory(memory_size)?, rounds)?)
    }

    fn program_name<'a>(&'a self, name: Option<&'a str>) -> Result<&'a str> {
        name.map_or_else(|| Ok(self.object.only_program()?), Ok)
    }

    pub(crate) fn map_named(&self, name: &str) -> Result<u32> {
        Ok(self.object.map(name)?.index() as u32)
    }

    pub(crate) fn map_spec(&self, map: MapNumber) -> Result<&MapSpec> {
        Ok(self.map(map)?.spec())
    }

    pub(crate) fn map_info(&self, number: MapNumber) -> Result<MapInfo> {
        let spec = self.map_spec(number)?;
        Ok(MapInfo {
            name: self.map_names[number.0 as usize].as_ptr(),
            kind: spec.kind as u32,
            key_size: spec.key_bytes,
            value_size: spec.value_bytes,
            max_entries: spec.max_entries,
            flags: spec.flags,
        })
    }

    /// The values of a key of a per-CPU map, each rounded up to 8 bytes.
    pub(crate) fn lookup_lanes(&self, map: MapNumber, key: &[u8]) -> Result<Vec<u8>> {
        let padded = |value: Vec<u8>| {
            let bytes = value.len().next_multiple_of(8);
            value.into_iter().chain(std::iter::repeat(0)).take(bytes)
        };
        Ok(self.map(map)?.lookup_lanes(key)?.into_iter().flat_map(padded).collect())
    }

    pub(crate) fn update_lanes(&self, map: MapNumber, key: &[u8], values: &[u8], flags: u64) -> Result<()> {
        let map = self.map(map)?;
        let bytes = map.spec().value_bytes as usize;
        let values = values.chunks_exact(bytes.next_multiple_of(8)).map(|value| value[..bytes].to_vec());
        Ok(map.update_lanes(key, &values.collect::<Vec<_>>(), flags)?)
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.object.skipped()
    }

    pub(crate) fn map(&self, number: MapNumber) -> Result<Map<'_>> {
        let found = usize::try_from(number.0).ok().and_then(|index| self.object.maps().nth(index));
        found.ok_or_else(|| Error::new(ENOENT, format!("there is no map {}", number.0)))
    }
}

fn memory(size: usize) -> Result<u32> {
    u32::try_from(size).map_err(|_| Error::new(E2BIG, format!("memory of {size} bytes")))
}

fn c_string(name: &str) -> CString {
    CString::new(name.replace('\0', " ")).unwrap_or_default()
}
