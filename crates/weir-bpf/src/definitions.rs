//! What may be changed of an object between opening it and making its maps, as between libbpf's open and load.

use weir_ebpf::elf::ObjectFile;

use crate::error::Error;

/// The maps and variables of an object that is being opened ([`Object::open_with`](crate::Object::open_with)).
#[derive(Debug)]
pub struct Definitions<'o>(pub(crate) &'o mut ObjectFile);

impl Definitions<'_> {
    /// Gives a map so many entries: of a ring, bytes. (`bpf_map__set_max_entries`)
    ///
    /// # Errors
    /// [`Error::NoMap`]. Whether maps of its kind may have so many shows when they are made.
    pub fn set_max_entries(&mut self, map: &str, max_entries: u32) -> Result<(), Error> {
        let found = self.0.object.maps.iter_mut().find(|spec| spec.name == map);
        found.ok_or_else(|| Error::NoMap(map.to_owned()))?.max_entries = max_entries;
        Ok(())
    }

    /// Sets what a variable of the program holds at first: of one that is `const volatile`, for good.
    ///
    /// # Errors
    /// [`Error::NoVariable`], also where the file has no types (compile with `-g`); [`Error::Data`] if it has another size.
    pub fn set_variable(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let ObjectFile { object, maps, btf, .. } = &mut *self.0;
        let found = maps.iter_mut().zip(&object.maps).find_map(|(origin, spec)| {
            let variable = origin.variables.iter().find(|variable| variable.name == name)?;
            let size = btf.as_ref()?.size_of(variable.ty)?;
            Some((variable.offset as usize, size as usize, origin, spec))
        });
        let (offset, size, origin, spec) = found.ok_or_else(|| Error::NoVariable(name.to_owned()))?;
        if bytes.len() != size {
            return Err(Error::Data(format!("{} bytes for `{name}`, which has {size}", bytes.len())));
        }
        let contents = origin.initial.get_or_insert_with(|| vec![0; spec.value_bytes as usize]);
        // SANITY: the reader found the variable in its section.
        let place = contents.get_mut(offset..offset + size);
        place.ok_or_else(|| Error::NoVariable(name.to_owned()))?.copy_from_slice(bytes);
        Ok(())
    }
}
