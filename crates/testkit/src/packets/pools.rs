//! The values that fields of packets take and that random expressions ask for: few, so that they meet.

pub const IPV4: [[u8; 4]; 8] = [
    [10, 0, 0, 1],
    [10, 0, 0, 2],
    [192, 168, 1, 1],
    [1, 2, 3, 4],
    [172, 16, 0, 1],
    [127, 0, 0, 1],
    [224, 0, 0, 1],
    [255, 255, 255, 255],
];

pub const IPV6: [[u16; 8]; 5] = [
    [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1],
    [0x2001, 0xdb8, 0, 1, 0, 0, 0, 2],
    [0xfe80, 0, 0, 0, 0, 0, 0, 1],
    [0, 0, 0, 0, 0, 0, 0, 1],
    [0xff02, 0, 0, 0, 0, 0, 0, 1],
];

pub const MACS: [[u8; 6]; 6] = [
    [0, 0x11, 0x22, 0x33, 0x44, 0x55],
    [0x02, 0, 0, 0, 0, 1],
    [0xaa, 0, 4, 0, 0x0a, 0x04],
    [0x01, 0x80, 0xc2, 0, 0, 0],
    [0x01, 0, 0x5e, 0, 0, 1],
    [0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
];

pub const PORTS: [u16; 10] = [22, 53, 80, 443, 1024, 6081, 4789, 20, 8080, 65535];
pub const VLANS: [u16; 5] = [0, 1, 100, 200, 4095];
pub const LABELS: [u32; 5] = [0, 16, 1024, 100_000, 0xf_ffff];
pub const SESSIONS: [u16; 3] = [0x27, 1, 0xffff];
pub const VNIS: [u32; 3] = [0xb, 1, 0xff_ffff];
pub const DECNET: [(u16, u16); 3] = [(1, 10), (10, 123), (63, 1023)];
pub const VPIS: [u8; 3] = [0, 1, 255];
pub const VCIS: [u16; 9] = [1, 2, 3, 4, 5, 16, 32, 100, 65535];
pub const POINT_CODES: [u16; 4] = [1, 5, 300, 16383];
pub const INTERFACES: [&str; 3] = ["en0", "eth0", "pflog0"];
