//! Capture files in either byte order, put together block by block, whether or not they are right.

/// A byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Little,
    Big,
}

pub(crate) const ORDERS: [Order; 2] = [Order::Little, Order::Big];

/// Bytes of a file, to which more is added.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) order: Order,
    pub(crate) bytes: Vec<u8>,
}

/// Code and value of an option.
pub(crate) type Opt = (u16, Vec<u8>);

impl File {
    pub(crate) fn new(order: Order) -> File {
        File { order, bytes: Vec::new() }
    }

    /// A pcapng file of one section, which has one Ethernet interface without options.
    pub(crate) fn with_interface(order: Order) -> File {
        File::new(order).section(&[]).interface(1, 0, &[])
    }

    /// A classic file without records, of Ethernet.
    pub(crate) fn classic(order: Order, magic: u32) -> File {
        File::new(order).u32(magic).u16(2).u16(4).u32(0).u32(0).u32(65_535).u32(1)
    }

    pub(crate) fn u16(mut self, number: u16) -> File {
        self.bytes.extend(match self.order {
            Order::Little => number.to_le_bytes(),
            Order::Big => number.to_be_bytes(),
        });
        self
    }

    pub(crate) fn u32(mut self, number: u32) -> File {
        self.bytes.extend(match self.order {
            Order::Little => number.to_le_bytes(),
            Order::Big => number.to_be_bytes(),
        });
        self
    }

    pub(crate) fn u64(mut self, number: u64) -> File {
        self.bytes.extend(match self.order {
            Order::Little => number.to_le_bytes(),
            Order::Big => number.to_be_bytes(),
        });
        self
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> File {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Bytes, filled up to a multiple of four.
    pub(crate) fn padded(mut self, bytes: &[u8]) -> File {
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend(vec![0; bytes.len().next_multiple_of(4) - bytes.len()]);
        self
    }

    /// A time: the upper half first.
    pub(crate) fn ticks(self, ticks: u64) -> File {
        self.u32((ticks >> 32) as u32).u32(ticks as u32)
    }

    /// Options and their end; nothing if there are none.
    pub(crate) fn options(self, options: &[Opt]) -> File {
        if options.is_empty() {
            return self;
        }
        let file = options
            .iter()
            .fold(self, |file, (code, value)| file.u16(*code).u16(value.len() as u16).padded(value));
        file.u32(0)
    }

    /// A block with the body that is put together in a file of its own.
    pub(crate) fn block(self, kind: u32, body: impl FnOnce(File) -> File) -> File {
        let body = body(File::new(self.order)).bytes;
        let length = 12 + body.len() as u32;
        self.u32(kind).u32(length).raw(&body).u32(length)
    }

    pub(crate) fn section(self, options: &[Opt]) -> File {
        self.section_of(1, 0, options)
    }

    pub(crate) fn section_of(self, major: u16, minor: u16, options: &[Opt]) -> File {
        self.block(0x0a0d_0d0a, |body| {
            body.u32(0x1a2b_3c4d).u16(major).u16(minor).u64(u64::MAX).options(options)
        })
    }

    pub(crate) fn interface(self, link_type: u16, snaplen: u32, options: &[Opt]) -> File {
        self.block(1, |body| body.u16(link_type).u16(0).u32(snaplen).options(options))
    }

    /// An enhanced packet block, with as many bytes on the wire as were captured.
    pub(crate) fn enhanced(self, interface: u32, ticks: u64, packet: &[u8], options: &[Opt]) -> File {
        let length = packet.len() as u32;
        self.block(6, |body| {
            body.u32(interface).ticks(ticks).u32(length).u32(length).padded(packet).options(options)
        })
    }

    pub(crate) fn simple(self, wire_len: u32, packet: &[u8]) -> File {
        self.block(3, |body| body.u32(wire_len).padded(packet))
    }

    /// A packet block, which is obsolete.
    pub(crate) fn obsolete(self, interface: u16, drops: u16, packet: &[u8], options: &[Opt]) -> File {
        let length = packet.len() as u32;
        self.block(2, |body| {
            let body = body.u16(interface).u16(drops).ticks(7_000_000).u32(length).u32(length);
            body.padded(packet).options(options)
        })
    }

    pub(crate) fn statistics(self, interface: u32, ticks: u64, options: &[Opt]) -> File {
        self.block(5, |body| body.u32(interface).ticks(ticks).options(options))
    }

    /// A record of a classic file.
    pub(crate) fn record(self, s: u32, part: u32, packet: &[u8]) -> File {
        let length = packet.len() as u32;
        self.u32(s).u32(part).u32(length).u32(length).raw(packet)
    }

    /// A number as the value of an option.
    pub(crate) fn value(order: Order, number: u64) -> Vec<u8> {
        File::new(order).u64(number).bytes
    }
}
