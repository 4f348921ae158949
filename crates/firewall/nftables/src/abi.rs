//! Constants of the kernel's interface (`linux/netfilter/nf_tables.h` and related headers).

#![allow(clippy::unreadable_literal)]

pub(crate) mod netlink {
    pub(crate) const ERROR: u16 = 2;
    pub(crate) const DONE: u16 = 3;
    pub(crate) const REQUEST: u16 = 0x1;
    pub(crate) const ACK: u16 = 0x4;
    pub(crate) const ECHO: u16 = 0x8;
    pub(crate) const DUMP: u16 = 0x300;
    /// The dump may be inconsistent.
    pub(crate) const DUMP_INTERRUPTED: u16 = 0x10;
    pub(crate) const CREATE: u16 = 0x400;
    pub(crate) const APPEND: u16 = 0x800;
}

/// Subsystem in the upper octet of a message's type.
pub(crate) const NFTABLES: u16 = 10;
pub(crate) const CONNTRACK: u16 = 1;
pub(crate) const BATCH_BEGIN: u16 = 16;
pub(crate) const BATCH_END: u16 = 17;

/// Address families.
pub(crate) const INET: u8 = 1;
pub(crate) const IPV4: u8 = 2;
pub(crate) const IPV6: u8 = 10;

pub(crate) mod msg {
    pub(crate) const NEW_TABLE: u16 = 0;
    pub(crate) const GET_TABLE: u16 = 1;
    pub(crate) const DEL_TABLE: u16 = 2;
    pub(crate) const NEW_CHAIN: u16 = 3;
    pub(crate) const GET_CHAIN: u16 = 4;
    pub(crate) const DEL_CHAIN: u16 = 5;
    pub(crate) const NEW_RULE: u16 = 6;
    pub(crate) const GET_RULE: u16 = 7;
    pub(crate) const DEL_RULE: u16 = 8;
    pub(crate) const NEW_SET: u16 = 9;
    pub(crate) const GET_SET: u16 = 10;
    pub(crate) const DEL_SET: u16 = 11;
    pub(crate) const NEW_ELEMENT: u16 = 12;
    pub(crate) const GET_ELEMENT: u16 = 13;
    pub(crate) const DEL_ELEMENT: u16 = 14;
    pub(crate) const GET_GENERATION: u16 = 16;
    pub(crate) const DEL_CONNTRACK: u16 = 2;
}

pub(crate) mod table {
    pub(crate) const NAME: u16 = 1;
    pub(crate) const FLAGS: u16 = 2;
    pub(crate) const HANDLE: u16 = 4;
    /// Table flag: packets do not pass the table.
    pub(crate) const DORMANT: u32 = 1;
}

pub(crate) mod generation {
    pub(crate) const ID: u16 = 1;
}

pub(crate) mod chain {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const NAME: u16 = 3;
    pub(crate) const HOOK: u16 = 4;
    pub(crate) const POLICY: u16 = 5;
    pub(crate) const TYPE: u16 = 7;
    pub(crate) const HOOK_NUMBER: u16 = 1;
    pub(crate) const HOOK_PRIORITY: u16 = 2;
    pub(crate) const PREROUTING: u32 = 0;
    pub(crate) const FORWARD: u32 = 2;
    pub(crate) const POSTROUTING: u32 = 4;
}

pub(crate) mod rule {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const CHAIN: u16 = 2;
    pub(crate) const HANDLE: u16 = 3;
    pub(crate) const EXPRESSIONS: u16 = 4;
}

pub(crate) mod set {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const NAME: u16 = 2;
    pub(crate) const FLAGS: u16 = 3;
    pub(crate) const KEY_TYPE: u16 = 4;
    pub(crate) const KEY_LEN: u16 = 5;
    pub(crate) const DATA_TYPE: u16 = 6;
    pub(crate) const DATA_LEN: u16 = 7;
    pub(crate) const DESC: u16 = 9;
    pub(crate) const ID: u16 = 10;
    pub(crate) const USERDATA: u16 = 13;
    pub(crate) const EXPR: u16 = 17;
    pub(crate) const DESC_SIZE: u16 = 1;
    pub(crate) const DESC_CONCAT: u16 = 2;
    pub(crate) const FIELD_LEN: u16 = 1;
    pub(crate) const IS_MAP: u32 = 0x8;
    pub(crate) const HAS_TIMEOUT: u32 = 0x10;
    pub(crate) const IS_CONCAT: u32 = 0x80;
    pub(crate) const HAS_EXPR: u32 = 0x100;
    /// User data shown as a comment by `nft`.
    pub(crate) const UDATA_COMMENT: u8 = 7;
}

pub(crate) mod element {
    pub(crate) const LIST_TABLE: u16 = 1;
    pub(crate) const LIST_SET: u16 = 2;
    pub(crate) const LIST: u16 = 3;
    pub(crate) const KEY: u16 = 1;
    pub(crate) const DATA: u16 = 2;
    pub(crate) const TIMEOUT: u16 = 4;
    pub(crate) const EXPIRATION: u16 = 5;
    pub(crate) const EXPR: u16 = 7;
}

pub(crate) const LIST_ELEM: u16 = 1;

pub(crate) mod data {
    pub(crate) const VALUE: u16 = 1;
    pub(crate) const VERDICT: u16 = 2;
    pub(crate) const VERDICT_CODE: u16 = 1;
    pub(crate) const VERDICT_CHAIN: u16 = 2;
}

pub(crate) mod verdict {
    pub(crate) const DROP: u32 = 0;
    pub(crate) const ACCEPT: u32 = 1;
    /// The kernel's `NFT_JUMP`, -3.
    pub(crate) const JUMP: u32 = 0xffff_fffd;
}

pub(crate) mod expr {
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DATA: u16 = 2;
}

/// 4-octet registers: 8 to 23.
pub(crate) const REGISTER_0: u32 = 8;

pub(crate) mod meta {
    pub(crate) const DREG: u16 = 1;
    pub(crate) const KEY: u16 = 2;
    pub(crate) const IIFNAME: u32 = 6;
    pub(crate) const OIFNAME: u32 = 7;
    pub(crate) const NFPROTO: u32 = 15;
    pub(crate) const L4PROTO: u32 = 16;
}

pub(crate) mod payload {
    pub(crate) const DREG: u16 = 1;
    pub(crate) const BASE: u16 = 2;
    pub(crate) const OFFSET: u16 = 3;
    pub(crate) const LEN: u16 = 4;
    pub(crate) const NETWORK: u32 = 1;
    pub(crate) const TRANSPORT: u32 = 2;
}

pub(crate) mod cmp {
    pub(crate) const SREG: u16 = 1;
    pub(crate) const OP: u16 = 2;
    pub(crate) const DATA: u16 = 3;
    pub(crate) const EQUAL: u32 = 0;
    pub(crate) const AT_MOST: u32 = 3;
    pub(crate) const AT_LEAST: u32 = 5;
}

pub(crate) mod bitwise {
    pub(crate) const SREG: u16 = 1;
    pub(crate) const DREG: u16 = 2;
    pub(crate) const LEN: u16 = 3;
    pub(crate) const MASK: u16 = 4;
    pub(crate) const XOR: u16 = 5;
}

pub(crate) mod lookup {
    pub(crate) const SET: u16 = 1;
    pub(crate) const SREG: u16 = 2;
    pub(crate) const DREG: u16 = 3;
}

pub(crate) mod immediate {
    pub(crate) const DREG: u16 = 1;
    pub(crate) const DATA: u16 = 2;
}

pub(crate) mod nat {
    pub(crate) const TYPE: u16 = 1;
    pub(crate) const FAMILY: u16 = 2;
    pub(crate) const REG_ADDR_MIN: u16 = 3;
    pub(crate) const REG_PROTO_MIN: u16 = 5;
    pub(crate) const SNAT: u32 = 0;
    pub(crate) const DNAT: u32 = 1;
}

pub(crate) mod counter {
    pub(crate) const BYTES: u16 = 1;
    pub(crate) const PACKETS: u16 = 2;
}

pub(crate) mod conntrack {
    pub(crate) const TUPLE_ORIG: u16 = 1;
    pub(crate) const TUPLE_IP: u16 = 1;
    pub(crate) const TUPLE_PROTO: u16 = 2;
    pub(crate) const V4_SRC: u16 = 1;
    pub(crate) const V4_DST: u16 = 2;
    pub(crate) const V6_SRC: u16 = 3;
    pub(crate) const V6_DST: u16 = 4;
    pub(crate) const NUMBER: u16 = 1;
    pub(crate) const SRC_PORT: u16 = 2;
    pub(crate) const DST_PORT: u16 = 3;
}

/// Types of key fields, 6 bits each, for `nft`.
pub(crate) mod datatype {
    pub(crate) const IPV4_ADDR: u32 = 7;
    pub(crate) const IPV6_ADDR: u32 = 8;
    pub(crate) const INET_PROTO: u32 = 12;
    pub(crate) const INET_SERVICE: u32 = 13;
    pub(crate) const MARK: u32 = 19;
}
