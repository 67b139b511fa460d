//! The three kinds of address, so that none is taken for another.
//!
//! A function has one [`LinkAddr`] (what its ELF file says), one [`FileOffset`] (where its bytes stand in the file)
//! and, in each process, one [`VirtAddr`] per time the file is mapped. `Binary` and `maps` convert between them;
//! there is deliberately no `From`.

use std::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// The address `bytes` further on; `None` past the end of the address space.
            pub fn checked_add(self, bytes: u64) -> Option<$name> {
                self.0.checked_add(bytes).map($name)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }
    };
}

address!(
    /// An address as the linker gave it: symbol values, `p_vaddr`.
    LinkAddr
);
address!(
    /// A byte offset in a file, as in a kernel uprobe or in `/proc/PID/maps`.
    FileOffset
);
address!(
    /// An address in a running process.
    VirtAddr
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_print_in_hex() {
        assert_eq!(
            format!("{:?} {} {:x}", LinkAddr(0x1f), FileOffset(16), VirtAddr(255)),
            "LinkAddr(0x1f) 0x10 ff"
        );
    }

    #[test]
    fn addition_stops_at_the_end_of_the_address_space() {
        assert_eq!(VirtAddr(u64::MAX).checked_add(1), None);
        assert_eq!(VirtAddr(1).checked_add(2), Some(VirtAddr(3)));
    }
}
