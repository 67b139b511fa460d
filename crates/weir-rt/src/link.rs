//! An [`Executable`] and the address it will stand at in, its final bytes out.
//!
//! Deliberately not here: finding the address, and writing there.

use thiserror::Error;

use crate::executable::{Executable, RelocKind, Relocation, Symbol};

/// Why an executable does not fit its place.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    #[error("{program}: no address for {symbol:?}")]
    Unresolved { program: String, symbol: Symbol },
    #[error(
        "{program}: {symbol:?} is {distance:#x} bytes from the code at offset {offset:#x}, beyond ±2 GiB"
    )]
    TooFar { program: String, symbol: Symbol, offset: u32, distance: i64 },
    #[error("{program}: a relocation at offset {offset:#x} of {bytes} bytes of code")]
    Outside { program: String, offset: u32, bytes: usize },
}

/// The bytes of `executable` for address `at`, its symbols as `resolve` says.
pub fn link(
    executable: &Executable,
    at: u64,
    resolve: &dyn Fn(Symbol) -> Option<u64>,
) -> Result<Vec<u8>, LinkError> {
    let mut code = executable.code.clone();
    for relocation in &executable.relocations {
        apply(executable, relocation, &mut code, at, resolve)?;
    }
    Ok(code)
}

fn apply(
    executable: &Executable,
    relocation: &Relocation,
    code: &mut [u8],
    at: u64,
    resolve: &dyn Fn(Symbol) -> Option<u64>,
) -> Result<(), LinkError> {
    let Relocation { offset, kind, symbol, addend } = *relocation;
    let program = || executable.name.clone();
    let bytes = code.len();
    let address = match symbol {
        Symbol::Code(target) => Some(at.wrapping_add(target.into())),
        symbol => resolve(symbol),
    };
    let Some(address) = address else { return Err(LinkError::Unresolved { program: program(), symbol }) };
    let target = address.wrapping_add_signed(addend);
    let width = match kind {
        RelocKind::Abs64 => 8,
        RelocKind::Rel32 => 4,
    };
    let Some(field) = code.get_mut(offset as usize..).and_then(|rest| rest.get_mut(..width)) else {
        return Err(LinkError::Outside { program: program(), offset, bytes });
    };
    match kind {
        RelocKind::Abs64 => field.copy_from_slice(&target.to_le_bytes()),
        RelocKind::Rel32 => {
            let distance = target.wrapping_sub(at.wrapping_add(offset.into())) as i64;
            let Ok(near) = i32::try_from(distance) else {
                return Err(LinkError::TooFar { program: program(), symbol, offset, distance });
            };
            field.copy_from_slice(&near.to_le_bytes());
        }
    }
    Ok(())
}
