//! Link types: their numbers and names, and where in their headers things are.
//!
//! Sources: the LINKTYPE registry at tcpdump.org and the standards that it names. Which of them libpcap 1.10.3 compiles
//! expressions for, and at which offsets, was tried on it.

/// A link type, by the number that programs know it by (`DLT_`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkType(pub u16);

#[rustfmt::skip]
#[allow(missing_docs, reason = "NAMES describes them")]
impl LinkType {
    pub const NULL: LinkType = LinkType(0);
    pub const EN10MB: LinkType = LinkType(1);
    pub const IEEE802: LinkType = LinkType(6);
    pub const ARCNET: LinkType = LinkType(7);
    pub const SLIP: LinkType = LinkType(8);
    pub const PPP: LinkType = LinkType(9);
    pub const FDDI: LinkType = LinkType(10);
    pub const ATM_RFC1483: LinkType = LinkType(11);
    pub const RAW: LinkType = LinkType(12);
    pub const SLIP_BSDOS: LinkType = LinkType(15);
    pub const PPP_BSDOS: LinkType = LinkType(16);
    pub const ATM_CLIP: LinkType = LinkType(19);
    pub const PPP_SERIAL: LinkType = LinkType(50);
    pub const PPP_ETHER: LinkType = LinkType(51);
    pub const SYMANTEC_FIREWALL: LinkType = LinkType(99);
    pub const C_HDLC: LinkType = LinkType(104);
    pub const IEEE802_11: LinkType = LinkType(105);
    pub const FRELAY: LinkType = LinkType(107);
    pub const LOOP: LinkType = LinkType(108);
    pub const ENC: LinkType = LinkType(109);
    pub const HDLC: LinkType = LinkType(112);
    pub const LINUX_SLL: LinkType = LinkType(113);
    pub const LTALK: LinkType = LinkType(114);
    pub const PFLOG: LinkType = LinkType(117);
    pub const PRISM_HEADER: LinkType = LinkType(119);
    pub const IP_OVER_FC: LinkType = LinkType(122);
    pub const SUNATM: LinkType = LinkType(123);
    pub const IEEE802_11_RADIO: LinkType = LinkType(127);
    pub const ARCNET_LINUX: LinkType = LinkType(129);
    pub const JUNIPER_MLPPP: LinkType = LinkType(130);
    pub const JUNIPER_MLFR: LinkType = LinkType(131);
    pub const JUNIPER_ES: LinkType = LinkType(132);
    pub const JUNIPER_GGSN: LinkType = LinkType(133);
    pub const JUNIPER_MFR: LinkType = LinkType(134);
    pub const JUNIPER_ATM2: LinkType = LinkType(135);
    pub const JUNIPER_SERVICES: LinkType = LinkType(136);
    pub const JUNIPER_ATM1: LinkType = LinkType(137);
    pub const APPLE_IP_OVER_IEEE1394: LinkType = LinkType(138);
    pub const MTP2_WITH_PHDR: LinkType = LinkType(139);
    pub const MTP2: LinkType = LinkType(140);
    pub const IEEE802_11_RADIO_AVS: LinkType = LinkType(163);
    pub const JUNIPER_MONITOR: LinkType = LinkType(164);
    pub const BACNET_MS_TP: LinkType = LinkType(165);
    pub const PPP_PPPD: LinkType = LinkType(166);
    pub const JUNIPER_PPPOE: LinkType = LinkType(167);
    pub const JUNIPER_PPPOE_ATM: LinkType = LinkType(168);
    pub const JUNIPER_ETHER: LinkType = LinkType(178);
    pub const JUNIPER_PPP: LinkType = LinkType(179);
    pub const JUNIPER_FRELAY: LinkType = LinkType(180);
    pub const JUNIPER_CHDLC: LinkType = LinkType(181);
    pub const JUNIPER_VP: LinkType = LinkType(183);
    pub const PPI: LinkType = LinkType(192);
    pub const JUNIPER_ISM: LinkType = LinkType(194);
    pub const ERF: LinkType = LinkType(197);
    pub const JUNIPER_ST: LinkType = LinkType(200);
    pub const IPNET: LinkType = LinkType(226);
    pub const IPV4: LinkType = LinkType(228);
    pub const IPV6: LinkType = LinkType(229);
    pub const JUNIPER_VS: LinkType = LinkType(232);
    pub const JUNIPER_SRX_E2E: LinkType = LinkType(233);
    pub const JUNIPER_FIBRECHANNEL: LinkType = LinkType(234);
    pub const JUNIPER_ATM_CEMIC: LinkType = LinkType(238);
    pub const NETANALYZER: LinkType = LinkType(240);
    pub const NETANALYZER_TRANSPARENT: LinkType = LinkType(241);
    pub const PFSYNC: LinkType = LinkType(246);
    pub const LINUX_SLL2: LinkType = LinkType(276);
    pub const AX25_KISS: LinkType = LinkType(202);
}

/// Numbers, names without `DLT_`, and what they are.
#[rustfmt::skip]
pub const NAMES: &[(u16, &str, &str)] = &[
    (0, "NULL", "BSD loopback"),
    (1, "EN10MB", "Ethernet"),
    (6, "IEEE802", "Token ring"),
    (7, "ARCNET", "BSD ARCNET"),
    (8, "SLIP", "SLIP"),
    (9, "PPP", "PPP"),
    (10, "FDDI", "FDDI"),
    (11, "ATM_RFC1483", "RFC 1483 LLC-encapsulated ATM"),
    (12, "RAW", "Raw IP"),
    (15, "SLIP_BSDOS", "BSD/OS SLIP"),
    (16, "PPP_BSDOS", "BSD/OS PPP"),
    (19, "ATM_CLIP", "Linux Classical IP over ATM"),
    (50, "PPP_SERIAL", "PPP over serial"),
    (51, "PPP_ETHER", "PPPoE"),
    (99, "SYMANTEC_FIREWALL", "Symantec Firewall"),
    (104, "C_HDLC", "Cisco HDLC"),
    (105, "IEEE802_11", "802.11"),
    (107, "FRELAY", "Frame Relay"),
    (108, "LOOP", "OpenBSD loopback"),
    (109, "ENC", "OpenBSD encapsulated IP"),
    (112, "HDLC", "HDLC"),
    (113, "LINUX_SLL", "Linux cooked v1"),
    (114, "LTALK", "Localtalk"),
    (117, "PFLOG", "OpenBSD pflog file"),
    (119, "PRISM_HEADER", "802.11 plus Prism header"),
    (122, "IP_OVER_FC", "RFC 2625 IP-over-Fibre Channel"),
    (123, "SUNATM", "Sun raw ATM"),
    (127, "IEEE802_11_RADIO", "802.11 plus radiotap header"),
    (129, "ARCNET_LINUX", "Linux ARCNET"),
    (130, "JUNIPER_MLPPP", "Juniper Multi-Link PPP"),
    (131, "JUNIPER_MLFR", "Juniper Multi-Link Frame Relay"),
    (132, "JUNIPER_ES", "Juniper Encryption Services PIC"),
    (133, "JUNIPER_GGSN", "Juniper GGSN PIC"),
    (134, "JUNIPER_MFR", "Juniper FRF.16 Frame Relay"),
    (135, "JUNIPER_ATM2", "Juniper ATM2 PIC"),
    (136, "JUNIPER_SERVICES", "Juniper Advanced Services PIC"),
    (137, "JUNIPER_ATM1", "Juniper ATM1 PIC"),
    (138, "APPLE_IP_OVER_IEEE1394", "Apple IP-over-IEEE 1394"),
    (139, "MTP2_WITH_PHDR", "SS7 MTP2 with Pseudo-header"),
    (140, "MTP2", "SS7 MTP2"),
    (141, "MTP3", "SS7 MTP3"),
    (142, "SCCP", "SS7 SCCP"),
    (143, "DOCSIS", "DOCSIS"),
    (144, "LINUX_IRDA", "Linux IrDA"),
    (163, "IEEE802_11_RADIO_AVS", "802.11 plus AVS radio information header"),
    (164, "JUNIPER_MONITOR", "Juniper Passive Monitor PIC"),
    (165, "BACNET_MS_TP", "BACnet MS/TP"),
    (166, "PPP_PPPD", "PPP for pppd, with direction flag"),
    (167, "JUNIPER_PPPOE", "Juniper PPPoE"),
    (168, "JUNIPER_PPPOE_ATM", "Juniper PPPoE/ATM"),
    (169, "GPRS_LLC", "GPRS LLC"),
    (170, "GPF_T", "GPF-T"),
    (171, "GPF_F", "GPF-F"),
    (174, "JUNIPER_PIC_PEER", "Juniper PIC Peer"),
    (175, "ERF_ETH", "Ethernet with Endace ERF header"),
    (176, "ERF_POS", "Packet-over-SONET with Endace ERF header"),
    (177, "LINUX_LAPD", "Linux vISDN LAPD"),
    (178, "JUNIPER_ETHER", "Juniper Ethernet"),
    (179, "JUNIPER_PPP", "Juniper PPP"),
    (180, "JUNIPER_FRELAY", "Juniper Frame Relay"),
    (181, "JUNIPER_CHDLC", "Juniper C-HDLC"),
    (182, "MFR", "FRF.16 Frame Relay"),
    (183, "JUNIPER_VP", "Juniper Voice PIC"),
    (184, "A429", "Arinc 429"),
    (185, "A653_ICM", "Arinc 653 Interpartition Communication"),
    (186, "USB_FREEBSD", "USB with FreeBSD header"),
    (187, "BLUETOOTH_HCI_H4", "Bluetooth HCI UART transport layer"),
    (188, "IEEE802_16_MAC_CPS", "IEEE 802.16 MAC Common Part Sublayer"),
    (189, "USB_LINUX", "USB with Linux header"),
    (190, "CAN20B", "Controller Area Network (CAN) v. 2.0B"),
    (191, "IEEE802_15_4_LINUX", "IEEE 802.15.4 with Linux padding"),
    (192, "PPI", "Per-Packet Information"),
    (193, "IEEE802_16_MAC_CPS_RADIO", "IEEE 802.16 MAC Common Part Sublayer plus radiotap header"),
    (194, "JUNIPER_ISM", "Juniper Integrated Service Module"),
    (195, "IEEE802_15_4", "IEEE 802.15.4 with FCS"),
    (196, "SITA", "SITA pseudo-header"),
    (197, "ERF", "Endace ERF header"),
    (198, "RAIF1", "Ethernet with u10 Networks pseudo-header"),
    (199, "IPMB_KONTRON", "IPMB with Kontron pseudo-header"),
    (200, "JUNIPER_ST", "Juniper Secure Tunnel"),
    (201, "BLUETOOTH_HCI_H4_WITH_PHDR", "Bluetooth HCI UART transport layer plus pseudo-header"),
    (202, "AX25_KISS", "AX.25 with KISS header"),
    (209, "IPMB_LINUX", "IPMB with Linux/Pigeon Point pseudo-header"),
    (215, "IEEE802_15_4_NONASK_PHY", "IEEE 802.15.4 with non-ASK PHY data"),
    (216, "LINUX_EVDEV", "Linux evdev events"),
    (219, "MPLS", "MPLS with label as link-layer header"),
    (220, "USB_LINUX_MMAPPED", "USB with padded Linux header"),
    (221, "DECT", "DECT"),
    (222, "AOS", "AOS Space Data Link protocol"),
    (223, "WIHART", "Wireless HART"),
    (224, "FC_2", "Fibre Channel FC-2"),
    (225, "FC_2_WITH_FRAME_DELIMS", "Fibre Channel FC-2 with frame delimiters"),
    (226, "IPNET", "Solaris ipnet"),
    (227, "CAN_SOCKETCAN", "CAN-bus with SocketCAN headers"),
    (228, "IPV4", "Raw IPv4"),
    (229, "IPV6", "Raw IPv6"),
    (230, "IEEE802_15_4_NOFCS", "IEEE 802.15.4 without FCS"),
    (231, "DBUS", "D-Bus"),
    (232, "JUNIPER_VS", "Juniper Virtual Server"),
    (233, "JUNIPER_SRX_E2E", "Juniper SRX E2E"),
    (234, "JUNIPER_FIBRECHANNEL", "Juniper Fibre Channel"),
    (235, "DVB_CI", "DVB-CI"),
    (236, "MUX27010", "MUX27010"),
    (237, "STANAG_5066_D_PDU", "STANAG 5066 D_PDUs"),
    (238, "JUNIPER_ATM_CEMIC", "Juniper ATM CEMIC"),
    (239, "NFLOG", "Linux netfilter log messages"),
    (240, "NETANALYZER", "Ethernet with Hilscher netANALYZER pseudo-header"),
    (241, "NETANALYZER_TRANSPARENT", "Ethernet with Hilscher netANALYZER pseudo-header and with preamble and SFD"),
    (242, "IPOIB", "RFC 4391 IP-over-Infiniband"),
    (243, "MPEG_2_TS", "MPEG-2 transport stream"),
    (244, "NG40", "ng40 protocol tester Iub/Iur"),
    (245, "NFC_LLCP", "NFC LLCP PDUs with pseudo-header"),
    (246, "PFSYNC", "Packet filter state syncing"),
    (247, "INFINIBAND", "InfiniBand"),
    (248, "SCTP", "SCTP"),
    (249, "USBPCAP", "USB with USBPcap header"),
    (250, "RTAC_SERIAL", "Schweitzer Engineering Laboratories RTAC packets"),
    (251, "BLUETOOTH_LE_LL", "Bluetooth Low Energy air interface"),
    (253, "NETLINK", "Linux netlink"),
    (254, "BLUETOOTH_LINUX_MONITOR", "Bluetooth Linux Monitor"),
    (255, "BLUETOOTH_BREDR_BB", "Bluetooth Basic Rate/Enhanced Data Rate baseband packets"),
    (256, "BLUETOOTH_LE_LL_WITH_PHDR", "Bluetooth Low Energy air interface with pseudo-header"),
    (257, "PROFIBUS_DL", "PROFIBUS data link layer"),
    (258, "PKTAP", "Apple DLT_PKTAP"),
    (259, "EPON", "Ethernet with 802.3 Clause 65 EPON preamble"),
    (260, "IPMI_HPM_2", "IPMI trace packets"),
    (261, "ZWAVE_R1_R2", "Z-Wave RF profile R1 and R2 packets"),
    (262, "ZWAVE_R3", "Z-Wave RF profile R3 packets"),
    (263, "WATTSTOPPER_DLM", "WattStopper Digital Lighting Management (DLM) and Legrand Nitoo Open protocol"),
    (264, "ISO_14443", "ISO 14443 messages"),
    (265, "RDS", "IEC 62106 Radio Data System groups"),
    (266, "USB_DARWIN", "USB with Darwin header"),
    (267, "OPENFLOW", "OpenBSD DLT_OPENFLOW"),
    (268, "SDLC", "IBM SDLC frames"),
    (269, "TI_LLN_SNIFFER", "TI LLN sniffer frames"),
    (271, "VSOCK", "Linux vsock"),
    (272, "NORDIC_BLE", "Nordic Semiconductor Bluetooth LE sniffer frames"),
    (273, "DOCSIS31_XRA31", "Excentis XRA-31 DOCSIS 3.1 RF sniffer frames"),
    (274, "ETHERNET_MPACKET", "802.3br mPackets"),
    (275, "DISPLAYPORT_AUX", "DisplayPort AUX channel monitoring data"),
    (276, "LINUX_SLL2", "Linux cooked v2"),
    (278, "OPENVIZSLA", "OpenVizsla USB"),
    (279, "EBHSCR", "Elektrobit High Speed Capture and Replay (EBHSCR)"),
    (280, "VPP_DISPATCH", "VPP graph dispatch tracer"),
    (281, "DSA_TAG_BRCM", "Broadcom tag"),
    (282, "DSA_TAG_BRCM_PREPEND", "Broadcom tag (prepended)"),
    (283, "IEEE802_15_4_TAP", "IEEE 802.15.4 with pseudo-header"),
    (284, "DSA_TAG_DSA", "Marvell DSA"),
    (285, "DSA_TAG_EDSA", "Marvell EDSA"),
    (286, "ELEE", "ELEE lawful intercept packets"),
    (287, "Z_WAVE_SERIAL", "Z-Wave serial frames between host and chip"),
    (288, "USB_2_0", "USB 2.0/1.1/1.0 as transmitted over the cable"),
    (289, "ATSC_ALP", "ATSC Link-Layer Protocol packets"),
];

/// Numbers below this one are known one by one; from here to [`NUMBER_MAX`] any may be filtered by its bytes.
pub(crate) const NUMBER_OPEN_MIN: u16 = 104;
pub(crate) const NUMBER_MAX: u16 = 289;

/// Numbers of link types in files (`LINKTYPE_`), where programs have others. Source: the registry at tcpdump.org, with the values of
/// Linux.
const IN_FILES: &[(u16, LinkType)] = &[
    (100, LinkType::ATM_RFC1483),
    (101, LinkType::RAW),
    (102, LinkType::SLIP_BSDOS),
    (103, LinkType::PPP_BSDOS),
    (106, LinkType::ATM_CLIP),
];

impl LinkType {
    /// The one that a capture file says by this number.
    pub fn of_file(number: u16) -> LinkType {
        let found = IN_FILES.iter().find(|(in_file, _)| *in_file == number);
        found.map_or(LinkType(number), |(_, link_type)| *link_type)
    }

    /// By its name, with or without `DLT_`, in any case; or by its number.
    pub fn named(name: &str) -> Option<LinkType> {
        let short = name.strip_prefix("DLT_").unwrap_or(name);
        let row = NAMES.iter().find(|(_, known, _)| known.eq_ignore_ascii_case(short));
        row.map(|(number, _, _)| LinkType(*number)).or_else(|| name.parse().ok().map(LinkType))
    }

    /// Its name, or its number.
    pub fn name(self) -> String {
        self.row().map_or_else(|| self.0.to_string(), |(_, name, _)| (*name).to_owned())
    }

    /// What it is, in a few words.
    pub fn about(self) -> String {
        self.row().map_or_else(|| format!("link type {}", self.0), |(_, _, about)| (*about).to_owned())
    }

    fn row(self) -> Option<&'static (u16, &'static str, &'static str)> {
        NAMES.iter().find(|(number, _, _)| *number == self.0)
    }

    pub(crate) fn layout(self) -> Option<Layout> {
        let row = LAYOUTS.iter().find(|(link, _)| *link == self);
        let open = (NUMBER_OPEN_MIN..=NUMBER_MAX).contains(&self.0);
        row.map(|(_, layout)| *layout).or(open.then_some(UNKNOWN))
    }
}

/// Byte offsets in a packet. Those of 802.11 and pflog add to a length that each packet has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// The link header.
    pub(crate) header: u32,
    /// The field that says what the payload is.
    pub(crate) link_type: Option<u32>,
    /// The link layer's payload; below 0: nowhere.
    pub(crate) payload: i32,
    /// The network header, from the payload on: past LLC and SNAP headers, if the type is in these.
    pub(crate) network: i32,
    /// The same for protocols without a SNAP header.
    pub(crate) network_nosnap: i32,
}

/// Of link types of which nothing is known but their bytes.
const UNKNOWN: Layout = Layout { header: 0, link_type: None, payload: -1, network: -1, network_nosnap: -1 };

#[rustfmt::skip]
const LAYOUTS: &[(LinkType, Layout)] = &[
    (LinkType::EN10MB, Layout { header: 0, link_type: Some(12), payload: 14, network: 0, network_nosnap: 3 }),
    (LinkType::ARCNET, Layout { header: 0, link_type: Some(2), payload: 6, network: 0, network_nosnap: 0 }),
    (LinkType::ARCNET_LINUX, Layout { header: 0, link_type: Some(4), payload: 8, network: 0, network_nosnap: 0 }),
    (LinkType::SLIP, Layout { header: 0, link_type: None, payload: 16, network: 0, network_nosnap: 0 }),
    (LinkType::SLIP_BSDOS, Layout { header: 0, link_type: None, payload: 24, network: 0, network_nosnap: 0 }),
    (LinkType::NULL, Layout { header: 0, link_type: Some(0), payload: 4, network: 0, network_nosnap: 0 }),
    (LinkType::LOOP, Layout { header: 0, link_type: Some(0), payload: 4, network: 0, network_nosnap: 0 }),
    (LinkType::ENC, Layout { header: 0, link_type: Some(0), payload: 12, network: 0, network_nosnap: 0 }),
    (LinkType::PPP, Layout { header: 0, link_type: Some(2), payload: 4, network: 0, network_nosnap: 0 }),
    (LinkType::PPP_PPPD, Layout { header: 0, link_type: Some(2), payload: 4, network: 0, network_nosnap: 0 }),
    (LinkType::PPP_SERIAL, Layout { header: 0, link_type: Some(2), payload: 4, network: 0, network_nosnap: 0 }),
    (LinkType::C_HDLC, Layout { header: 0, link_type: Some(2), payload: 4, network: 0, network_nosnap: 0 }),
    (LinkType::HDLC, Layout { header: 0, link_type: Some(2), payload: 4, network: 0, network_nosnap: 0 }),
    (LinkType::PPP_ETHER, Layout { header: 0, link_type: Some(6), payload: 8, network: 0, network_nosnap: 0 }),
    (LinkType::PPP_BSDOS, Layout { header: 0, link_type: Some(5), payload: 24, network: 0, network_nosnap: 0 }),
    (LinkType::FDDI, Layout { header: 0, link_type: Some(13), payload: 13, network: 8, network_nosnap: 3 }),
    (LinkType::IEEE802, Layout { header: 0, link_type: Some(14), payload: 14, network: 8, network_nosnap: 3 }),
    (LinkType::ATM_RFC1483, Layout { header: 0, link_type: Some(0), payload: 0, network: 8, network_nosnap: 3 }),
    (LinkType::ATM_CLIP, Layout { header: 0, link_type: Some(0), payload: 0, network: 8, network_nosnap: 3 }),
    (LinkType::SUNATM, Layout { header: 0, link_type: Some(4), payload: 4, network: 8, network_nosnap: 3 }),
    (LinkType::RAW, Layout { header: 0, link_type: None, payload: 0, network: 0, network_nosnap: 0 }),
    (LinkType::IPV4, Layout { header: 0, link_type: None, payload: 0, network: 0, network_nosnap: 0 }),
    (LinkType::IPV6, Layout { header: 0, link_type: None, payload: 0, network: 0, network_nosnap: 0 }),
    (LinkType::LINUX_SLL, Layout { header: 0, link_type: Some(14), payload: 16, network: 0, network_nosnap: 0 }),
    (LinkType::LINUX_SLL2, Layout { header: 0, link_type: Some(0), payload: 20, network: 0, network_nosnap: 0 }),
    (LinkType::LTALK, Layout { header: 0, link_type: None, payload: 0, network: 0, network_nosnap: 0 }),
    (LinkType::IP_OVER_FC, Layout { header: 0, link_type: Some(16), payload: 16, network: 8, network_nosnap: 3 }),
    (LinkType::FRELAY, Layout { header: 0, link_type: None, payload: 0, network: 0, network_nosnap: 0 }),
    (LinkType::APPLE_IP_OVER_IEEE1394, Layout { header: 0, link_type: Some(16), payload: 18, network: 0, network_nosnap: 0 }),
    (LinkType::SYMANTEC_FIREWALL, Layout { header: 0, link_type: Some(6), payload: 44, network: 0, network_nosnap: 0 }),
    (LinkType::PFLOG, Layout { header: 0, link_type: Some(0), payload: 0, network: 0, network_nosnap: 0 }),
    (LinkType::JUNIPER_MFR, Layout { header: 0, link_type: Some(4), payload: 4, network: 0, network_nosnap: -1 }),
    (LinkType::JUNIPER_MLFR, Layout { header: 0, link_type: Some(4), payload: 4, network: 0, network_nosnap: -1 }),
    (LinkType::JUNIPER_MLPPP, Layout { header: 0, link_type: Some(4), payload: 4, network: 0, network_nosnap: -1 }),
    (LinkType::JUNIPER_PPP, Layout { header: 0, link_type: Some(4), payload: 4, network: 0, network_nosnap: -1 }),
    (LinkType::JUNIPER_CHDLC, Layout { header: 0, link_type: Some(4), payload: 4, network: 0, network_nosnap: -1 }),
    (LinkType::JUNIPER_FRELAY, Layout { header: 0, link_type: Some(4), payload: 4, network: 0, network_nosnap: -1 }),
    (LinkType::JUNIPER_ATM1, Layout { header: 0, link_type: Some(4), payload: 4, network: 0, network_nosnap: 10 }),
    (LinkType::JUNIPER_ATM2, Layout { header: 0, link_type: Some(8), payload: 8, network: 0, network_nosnap: 10 }),
    (LinkType::JUNIPER_PPPOE, Layout { header: 0, link_type: Some(16), payload: 14, network: 18, network_nosnap: 21 }),
    (LinkType::JUNIPER_ETHER, Layout { header: 0, link_type: Some(16), payload: 14, network: 18, network_nosnap: 21 }),
    (LinkType::JUNIPER_PPPOE_ATM, Layout { header: 0, link_type: Some(4), payload: 6, network: 0, network_nosnap: -1 }),
    (LinkType::JUNIPER_GGSN, Layout { header: 0, link_type: Some(6), payload: 12, network: 0, network_nosnap: -1 }),
    (LinkType::JUNIPER_MONITOR, Layout { header: 0, link_type: Some(6), payload: 12, network: 0, network_nosnap: -1 }),
    (LinkType::JUNIPER_ES, Layout { header: 0, link_type: Some(6), payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::JUNIPER_SERVICES, Layout { header: 0, link_type: Some(12), payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::JUNIPER_VP, Layout { header: 0, link_type: Some(18), payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::JUNIPER_ST, Layout { header: 0, link_type: Some(18), payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::JUNIPER_ISM, Layout { header: 0, link_type: Some(8), payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::JUNIPER_VS, Layout { header: 0, link_type: Some(8), payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::JUNIPER_SRX_E2E, Layout { header: 0, link_type: Some(8), payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::JUNIPER_FIBRECHANNEL, Layout { header: 0, link_type: Some(8), payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::JUNIPER_ATM_CEMIC, Layout { header: 0, link_type: Some(8), payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::BACNET_MS_TP, Layout { header: 0, link_type: None, payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::MTP2, Layout { header: 0, link_type: None, payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::MTP2_WITH_PHDR, Layout { header: 0, link_type: None, payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::ERF, Layout { header: 0, link_type: None, payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::PFSYNC, Layout { header: 0, link_type: None, payload: 4, network: 0, network_nosnap: 0 }),
    (LinkType::AX25_KISS, Layout { header: 0, link_type: None, payload: -1, network: -1, network_nosnap: -1 }),
    (LinkType::IPNET, Layout { header: 0, link_type: Some(1), payload: 24, network: 0, network_nosnap: -1 }),
    (LinkType::NETANALYZER, Layout { header: 4, link_type: Some(16), payload: 18, network: 0, network_nosnap: 3 }),
    (LinkType::NETANALYZER_TRANSPARENT, Layout { header: 12, link_type: Some(24), payload: 26, network: 0, network_nosnap: 3 }),
    (LinkType::IEEE802_11, Layout { header: 0, link_type: Some(0), payload: 0, network: 8, network_nosnap: 3 }),
    (LinkType::IEEE802_11_RADIO, Layout { header: 0, link_type: Some(0), payload: 0, network: 8, network_nosnap: 3 }),
    (LinkType::PRISM_HEADER, Layout { header: 0, link_type: Some(0), payload: 0, network: 8, network_nosnap: 3 }),
    (LinkType::IEEE802_11_RADIO_AVS, Layout { header: 0, link_type: Some(0), payload: 0, network: 8, network_nosnap: 3 }),
    (LinkType::PPI, Layout { header: 0, link_type: Some(0), payload: 0, network: 8, network_nosnap: 3 }),
];
