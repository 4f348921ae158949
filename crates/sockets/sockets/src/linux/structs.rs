//! Structs of options, ancillary data and notifications. Those that end in a flexible array have its
//! elements behind [`Layout::SIZE`].

use super::address::Storage;
use super::layout::{Field, Layout, layouts};
use crate::errno::Errno;

/// Size of `sctp_paddrparams` before Linux 4.20 in bytes: without flow label and DSCP.
pub const PADDRPARAMS_OLD: usize = 152;
/// Size of `struct sctp_status` in bytes, [`PaddrInfo`] of the primary address included.
pub const STATUS: usize = 176;

/// Name, size and fields of a struct.
pub type LayoutEntry = (&'static str, usize, &'static [(&'static str, usize, usize)]);

layouts! {
    /// SCTP Initiation Structure (RFC 6458, sections 5.3.1 and 8.1.3).
    InitMsg = "struct sctp_initmsg", 8 {
        num_ostreams: u16 = "sinit_num_ostreams" @ 0;
        max_instreams: u16 = "sinit_max_instreams" @ 2;
        max_attempts: u16 = "sinit_max_attempts" @ 4;
        max_init_timeo: u16 = "sinit_max_init_timeo" @ 6;
    }
    /// SCTP Header Information Structure (RFC 6458, section 5.3.2).
    SndRcvInfo = "struct sctp_sndrcvinfo", 32 {
        stream: u16 = "sinfo_stream" @ 0;
        ssn: u16 = "sinfo_ssn" @ 2;
        flags: u16 = "sinfo_flags" @ 4;
        ppid: u32 = "sinfo_ppid" @ 8;
        context: u32 = "sinfo_context" @ 12;
        time_to_live: u32 = "sinfo_timetolive" @ 16;
        tsn: u32 = "sinfo_tsn" @ 20;
        cum_tsn: u32 = "sinfo_cumtsn" @ 24;
        assoc_id: i32 = "sinfo_assoc_id" @ 28;
    }
    /// SCTP Send Information Structure (RFC 6458, section 5.3.4).
    SndInfo = "struct sctp_sndinfo", 16 {
        sid: u16 = "snd_sid" @ 0;
        flags: u16 = "snd_flags" @ 2;
        ppid: u32 = "snd_ppid" @ 4;
        context: u32 = "snd_context" @ 8;
        assoc_id: i32 = "snd_assoc_id" @ 12;
    }
    /// SCTP Receive Information Structure (RFC 6458, section 5.3.5).
    RcvInfo = "struct sctp_rcvinfo", 28 {
        sid: u16 = "rcv_sid" @ 0;
        ssn: u16 = "rcv_ssn" @ 2;
        flags: u16 = "rcv_flags" @ 4;
        ppid: u32 = "rcv_ppid" @ 8;
        tsn: u32 = "rcv_tsn" @ 12;
        cum_tsn: u32 = "rcv_cumtsn" @ 16;
        context: u32 = "rcv_context" @ 20;
        assoc_id: i32 = "rcv_assoc_id" @ 24;
    }
    /// SCTP Next Receive Information Structure (RFC 6458, section 5.3.6).
    NxtInfo = "struct sctp_nxtinfo", 16 {
        sid: u16 = "nxt_sid" @ 0;
        flags: u16 = "nxt_flags" @ 2;
        ppid: u32 = "nxt_ppid" @ 4;
        length: u32 = "nxt_length" @ 8;
        assoc_id: i32 = "nxt_assoc_id" @ 12;
    }
    /// SCTP PR-SCTP Information Structure (RFC 6458, section 5.3.7).
    PrInfo = "struct sctp_prinfo", 8 {
        policy: u16 = "pr_policy" @ 0;
        value: u32 = "pr_value" @ 4;
    }
    /// SCTP AUTH Information Structure (RFC 6458, section 5.3.8).
    AuthInfo = "struct sctp_authinfo", 2 {
        key_number: u16 = "auth_keynumber" @ 0;
    }
    /// Association change (RFC 6458, section 6.1.1); the information follows.
    AssocChange = "struct sctp_assoc_change", 20 {
        kind: u16 = "sac_type" @ 0;
        flags: u16 = "sac_flags" @ 2;
        length: u32 = "sac_length" @ 4;
        state: u16 = "sac_state" @ 8;
        error: u16 = "sac_error" @ 10;
        outbound_streams: u16 = "sac_outbound_streams" @ 12;
        inbound_streams: u16 = "sac_inbound_streams" @ 14;
        assoc_id: i32 = "sac_assoc_id" @ 16;
    }
    /// Change of a peer address (RFC 6458, section 6.1.2).
    PaddrChange = "struct sctp_paddr_change", 148 {
        kind: u16 = "spc_type" @ 0;
        flags: u16 = "spc_flags" @ 2;
        length: u32 = "spc_length" @ 4;
        address: Storage = "spc_aaddr" @ 8;
        state: i32 = "spc_state" @ 136;
        error: i32 = "spc_error" @ 140;
        assoc_id: i32 = "spc_assoc_id" @ 144;
    }
    /// Error that the peer reported (RFC 6458, section 6.1.3); the error cause follows. The code has
    /// network byte order.
    RemoteError = "struct sctp_remote_error", 16 {
        kind: u16 = "sre_type" @ 0;
        flags: u16 = "sre_flags" @ 2;
        length: u32 = "sre_length" @ 4;
        error: u16 = "sre_error" @ 8;
        assoc_id: i32 = "sre_assoc_id" @ 12;
    }
    /// Message that was not sent, deprecated (RFC 6458, section 6.1.4); the message follows. The struct
    /// `ssf_info` of [`SndRcvInfo`] is at offset 12.
    SendFailed = "struct sctp_send_failed", 48 {
        kind: u16 = "ssf_type" @ 0;
        flags: u16 = "ssf_flags" @ 2;
        length: u32 = "ssf_length" @ 4;
        error: u32 = "ssf_error" @ 8;
        stream: u16 = "ssf_info.sinfo_stream" @ 12;
        info_flags: u16 = "ssf_info.sinfo_flags" @ 16;
        ppid: u32 = "ssf_info.sinfo_ppid" @ 20;
        context: u32 = "ssf_info.sinfo_context" @ 24;
        info_assoc_id: i32 = "ssf_info.sinfo_assoc_id" @ 40;
        assoc_id: i32 = "ssf_assoc_id" @ 44;
    }
    /// Message that was not sent (RFC 6458, section 6.1.11); the message follows. The struct `ssfe_info`
    /// of [`SndInfo`] is at offset 12.
    SendFailedEvent = "struct sctp_send_failed_event", 32 {
        kind: u16 = "ssf_type" @ 0;
        flags: u16 = "ssf_flags" @ 2;
        length: u32 = "ssf_length" @ 4;
        error: u32 = "ssf_error" @ 8;
        sid: u16 = "ssfe_info.snd_sid" @ 12;
        info_flags: u16 = "ssfe_info.snd_flags" @ 14;
        ppid: u32 = "ssfe_info.snd_ppid" @ 16;
        context: u32 = "ssfe_info.snd_context" @ 20;
        info_assoc_id: i32 = "ssfe_info.snd_assoc_id" @ 24;
        assoc_id: i32 = "ssf_assoc_id" @ 28;
    }
    /// SHUTDOWN of the peer (RFC 6458, section 6.1.5).
    ShutdownEvent = "struct sctp_shutdown_event", 12 {
        kind: u16 = "sse_type" @ 0;
        flags: u16 = "sse_flags" @ 2;
        length: u32 = "sse_length" @ 4;
        assoc_id: i32 = "sse_assoc_id" @ 8;
    }
    /// Adaptation Layer Indication of the peer (RFC 6458, section 6.1.6).
    AdaptationEvent = "struct sctp_adaptation_event", 16 {
        kind: u16 = "sai_type" @ 0;
        flags: u16 = "sai_flags" @ 2;
        length: u32 = "sai_length" @ 4;
        indication: u32 = "sai_adaptation_ind" @ 8;
        assoc_id: i32 = "sai_assoc_id" @ 12;
    }
    /// End of a partial delivery (RFC 6458, section 6.1.7), with Linux's order of fields.
    PdapiEvent = "struct sctp_pdapi_event", 24 {
        kind: u16 = "pdapi_type" @ 0;
        flags: u16 = "pdapi_flags" @ 2;
        length: u32 = "pdapi_length" @ 4;
        indication: u32 = "pdapi_indication" @ 8;
        assoc_id: i32 = "pdapi_assoc_id" @ 12;
        stream: u32 = "pdapi_stream" @ 16;
        seq: u32 = "pdapi_seq" @ 20;
    }
    /// Event of authentication (RFC 6458, section 6.1.8).
    AuthkeyEvent = "struct sctp_authkey_event", 20 {
        kind: u16 = "auth_type" @ 0;
        flags: u16 = "auth_flags" @ 2;
        length: u32 = "auth_length" @ 4;
        key_number: u16 = "auth_keynumber" @ 8;
        alt_key_number: u16 = "auth_altkeynumber" @ 10;
        indication: u32 = "auth_indication" @ 12;
        assoc_id: i32 = "auth_assoc_id" @ 16;
    }
    /// Empty send buffer (RFC 6458, section 6.1.9).
    SenderDryEvent = "struct sctp_sender_dry_event", 12 {
        kind: u16 = "sender_dry_type" @ 0;
        flags: u16 = "sender_dry_flags" @ 2;
        length: u32 = "sender_dry_length" @ 4;
        assoc_id: i32 = "sender_dry_assoc_id" @ 8;
    }
    /// Reset of streams (RFC 6525, section 6.1.1); the stream identifiers follow.
    StreamResetEvent = "struct sctp_stream_reset_event", 12 {
        kind: u16 = "strreset_type" @ 0;
        flags: u16 = "strreset_flags" @ 2;
        length: u32 = "strreset_length" @ 4;
        assoc_id: i32 = "strreset_assoc_id" @ 8;
    }
    /// Reset of an association (RFC 6525, section 6.1.2).
    AssocResetEvent = "struct sctp_assoc_reset_event", 20 {
        kind: u16 = "assocreset_type" @ 0;
        flags: u16 = "assocreset_flags" @ 2;
        length: u32 = "assocreset_length" @ 4;
        assoc_id: i32 = "assocreset_assoc_id" @ 8;
        local_tsn: u32 = "assocreset_local_tsn" @ 12;
        remote_tsn: u32 = "assocreset_remote_tsn" @ 16;
    }
    /// Addition of streams (RFC 6525, section 6.1.3). Linux reports the numbers that were added.
    StreamChangeEvent = "struct sctp_stream_change_event", 16 {
        kind: u16 = "strchange_type" @ 0;
        flags: u16 = "strchange_flags" @ 2;
        length: u32 = "strchange_length" @ 4;
        assoc_id: i32 = "strchange_assoc_id" @ 8;
        inbound_streams: u16 = "strchange_instrms" @ 12;
        outbound_streams: u16 = "strchange_outstrms" @ 14;
    }
    /// `SCTP_RTOINFO` (RFC 6458, section 8.1.1); milliseconds.
    RtoInfo = "struct sctp_rtoinfo", 16 {
        assoc_id: i32 = "srto_assoc_id" @ 0;
        initial: u32 = "srto_initial" @ 4;
        max: u32 = "srto_max" @ 8;
        min: u32 = "srto_min" @ 12;
    }
    /// `SCTP_ASSOCINFO` (RFC 6458, section 8.1.2).
    AssocParams = "struct sctp_assocparams", 20 {
        assoc_id: i32 = "sasoc_assoc_id" @ 0;
        max_retrans: u16 = "sasoc_asocmaxrxt" @ 4;
        peer_destinations: u16 = "sasoc_number_peer_destinations" @ 6;
        peer_rwnd: u32 = "sasoc_peer_rwnd" @ 8;
        local_rwnd: u32 = "sasoc_local_rwnd" @ 12;
        cookie_life: u32 = "sasoc_cookie_life" @ 16;
    }
    /// `SCTP_SET_PEER_PRIMARY_ADDR` (RFC 6458, section 8.3.1).
    SetPeerPrim = "struct sctp_setpeerprim", 132 {
        assoc_id: i32 = "sspp_assoc_id" @ 0;
        address: Storage = "sspp_addr" @ 4;
    }
    /// `SCTP_PRIMARY_ADDR` (RFC 6458, section 8.1.9).
    Prim = "struct sctp_prim", 132 {
        assoc_id: i32 = "ssp_assoc_id" @ 0;
        address: Storage = "ssp_addr" @ 4;
    }
    /// `SCTP_PEER_ADDR_PARAMS` (RFC 6458, section 8.1.12), as Linux 4.20 and later have it.
    PaddrParams = "struct sctp_paddrparams", 156 {
        assoc_id: i32 = "spp_assoc_id" @ 0;
        address: Storage = "spp_address" @ 4;
        hb_interval: u32 = "spp_hbinterval" @ 132;
        path_max_rxt: u16 = "spp_pathmaxrxt" @ 136;
        path_mtu: u32 = "spp_pathmtu" @ 138;
        sack_delay: u32 = "spp_sackdelay" @ 142;
        flags: u32 = "spp_flags" @ 146;
        ipv6_flow_label: u32 = "spp_ipv6_flowlabel" @ 150;
        dscp: u8 = "spp_dscp" @ 154;
    }
    /// `SCTP_GET_ASSOC_STATS` of Linux.
    AssocStats = "struct sctp_assoc_stats", 256 {
        assoc_id: i32 = "sas_assoc_id" @ 0;
        max_rto_address: Storage = "sas_obs_rto_ipaddr" @ 8;
        max_rto: u64 = "sas_maxrto" @ 136;
        sacks_received: u64 = "sas_isacks" @ 144;
        sacks_sent: u64 = "sas_osacks" @ 152;
        packets_sent: u64 = "sas_opackets" @ 160;
        packets_received: u64 = "sas_ipackets" @ 168;
        retransmitted_chunks: u64 = "sas_rtxchunks" @ 176;
        out_of_sequence_tsns: u64 = "sas_outofseqtsns" @ 184;
        duplicates_received: u64 = "sas_idupchunks" @ 192;
        gap_acks_received: u64 = "sas_gapcnt" @ 200;
        unordered_chunks_sent: u64 = "sas_ouodchunks" @ 208;
        unordered_chunks_received: u64 = "sas_iuodchunks" @ 216;
        ordered_chunks_sent: u64 = "sas_oodchunks" @ 224;
        ordered_chunks_received: u64 = "sas_iodchunks" @ 232;
        control_chunks_sent: u64 = "sas_octrlchunks" @ 240;
        control_chunks_received: u64 = "sas_ictrlchunks" @ 248;
    }
    /// Key identifier of `SCTP_AUTH_ACTIVE_KEY`, `SCTP_AUTH_DELETE_KEY` and `SCTP_AUTH_DEACTIVATE_KEY`
    /// (RFC 6458, section 8.1.21).
    AuthKeyId = "struct sctp_authkeyid", 8 {
        assoc_id: i32 = "scact_assoc_id" @ 0;
        key_number: u16 = "scact_keynumber" @ 4;
    }
    /// `SCTP_AUTH_KEY` (RFC 6458, section 8.3.3); the key follows.
    AuthKey = "struct sctp_authkey", 8 {
        assoc_id: i32 = "sca_assoc_id" @ 0;
        key_number: u16 = "sca_keynumber" @ 4;
        key_length: u16 = "sca_keylength" @ 6;
    }
    /// `SCTP_LOCAL_AUTH_CHUNKS` (RFC 6458, section 8.2.4); the chunk types follow.
    AuthChunks = "struct sctp_authchunks", 8 {
        assoc_id: i32 = "gauth_assoc_id" @ 0;
        number: u32 = "gauth_number_of_chunks" @ 4;
    }
    /// `SCTP_DELAYED_SACK` (RFC 6458, section 8.1.19); milliseconds and packets.
    SackInfo = "struct sctp_sack_info", 12 {
        assoc_id: i32 = "sack_assoc_id" @ 0;
        delay: u32 = "sack_delay" @ 4;
        frequency: u32 = "sack_freq" @ 8;
    }
    /// Value of an association (RFC 6458, section 8.1).
    AssocValue = "struct sctp_assoc_value", 8 {
        assoc_id: i32 = "assoc_id" @ 0;
        value: u32 = "assoc_value" @ 4;
    }
    /// `SCTP_STREAM_SCHEDULER_VALUE` (RFC 8260, section 4.3.3).
    StreamValue = "struct sctp_stream_value", 8 {
        assoc_id: i32 = "assoc_id" @ 0;
        stream_id: u16 = "stream_id" @ 4;
        value: u16 = "stream_value" @ 6;
    }
    /// `SCTP_GET_PEER_ADDR_INFO` (RFC 6458, section 8.2.2); bytes and milliseconds.
    PaddrInfo = "struct sctp_paddrinfo", 152 {
        assoc_id: i32 = "spinfo_assoc_id" @ 0;
        address: Storage = "spinfo_address" @ 4;
        state: i32 = "spinfo_state" @ 132;
        cwnd: u32 = "spinfo_cwnd" @ 136;
        srtt: u32 = "spinfo_srtt" @ 140;
        rto: u32 = "spinfo_rto" @ 144;
        mtu: u32 = "spinfo_mtu" @ 148;
    }
    /// First part of `SCTP_STATUS` (RFC 6458, section 8.2.1); `sstat_primary` of [`PaddrInfo`] follows.
    Status = "struct sctp_status", 24 {
        assoc_id: i32 = "sstat_assoc_id" @ 0;
        state: i32 = "sstat_state" @ 4;
        rwnd: u32 = "sstat_rwnd" @ 8;
        unacked_data: u16 = "sstat_unackdata" @ 12;
        pending_data: u16 = "sstat_penddata" @ 14;
        inbound_streams: u16 = "sstat_instrms" @ 16;
        outbound_streams: u16 = "sstat_outstrms" @ 18;
        fragmentation_point: u32 = "sstat_fragmentation_point" @ 20;
    }
    /// `SCTP_PEER_ADDR_THLDS` (RFC 7829, section 7.2).
    PaddrThlds = "struct sctp_paddrthlds", 144 {
        assoc_id: i32 = "spt_assoc_id" @ 0;
        address: Storage = "spt_address" @ 8;
        path_max_rxt: u16 = "spt_pathmaxrxt" @ 136;
        pf_threshold: u16 = "spt_pathpfthld" @ 138;
    }
    /// `SCTP_PEER_ADDR_THLDS_V2` (RFC 7829, section 7.2).
    PaddrThldsV2 = "struct sctp_paddrthlds_v2", 144 {
        assoc_id: i32 = "spt_assoc_id" @ 0;
        address: Storage = "spt_address" @ 8;
        path_max_rxt: u16 = "spt_pathmaxrxt" @ 136;
        pf_threshold: u16 = "spt_pathpfthld" @ 138;
        switchover_threshold: u16 = "spt_pathcpthld" @ 140;
    }
    /// `SCTP_PR_STREAM_STATUS` and `SCTP_PR_ASSOC_STATUS` (RFC 7496, sections 4.3 and 4.4).
    PrStatus = "struct sctp_prstatus", 24 {
        assoc_id: i32 = "sprstat_assoc_id" @ 0;
        sid: u16 = "sprstat_sid" @ 4;
        policy: u16 = "sprstat_policy" @ 6;
        abandoned_unsent: u64 = "sprstat_abandoned_unsent" @ 8;
        abandoned_sent: u64 = "sprstat_abandoned_sent" @ 16;
    }
    /// `SCTP_DEFAULT_PRINFO` (RFC 6458, section 8.1.32), with Linux's order of fields.
    DefaultPrInfo = "struct sctp_default_prinfo", 12 {
        assoc_id: i32 = "pr_assoc_id" @ 0;
        value: u32 = "pr_value" @ 4;
        policy: u16 = "pr_policy" @ 8;
    }
    /// `SCTP_RESET_STREAMS` (RFC 6525, section 6.3.2); the stream identifiers follow.
    ResetStreams = "struct sctp_reset_streams", 8 {
        assoc_id: i32 = "srs_assoc_id" @ 0;
        flags: u16 = "srs_flags" @ 4;
        number: u16 = "srs_number_streams" @ 6;
    }
    /// `SCTP_ADD_STREAMS` (RFC 6525, section 6.3.4).
    AddStreams = "struct sctp_add_streams", 8 {
        assoc_id: i32 = "sas_assoc_id" @ 0;
        inbound: u16 = "sas_instrms" @ 4;
        outbound: u16 = "sas_outstrms" @ 6;
    }
    /// `SCTP_EVENT` (RFC 6458, section 6.2.2).
    EventOption = "struct sctp_event", 8 {
        assoc_id: i32 = "se_assoc_id" @ 0;
        kind: u16 = "se_type" @ 4;
        on: u8 = "se_on" @ 6;
    }
    /// `SCTP_REMOTE_UDP_ENCAPS_PORT` (RFC 6951, section 6.1). The port has network byte order.
    UdpEncaps = "struct sctp_udpencaps", 144 {
        assoc_id: i32 = "sue_assoc_id" @ 0;
        address: Storage = "sue_address" @ 8;
        port: u16 = "sue_port" @ 136;
    }
    /// `SCTP_PLPMTUD_PROBE_INTERVAL` of Linux; milliseconds.
    ProbeInterval = "struct sctp_probeinterval", 144 {
        assoc_id: i32 = "spi_assoc_id" @ 0;
        address: Storage = "spi_address" @ 8;
        interval: u32 = "spi_interval" @ 136;
    }
    /// `SCTP_GET_PEER_ADDRS` and `SCTP_GET_LOCAL_ADDRS` of Linux; the packed addresses follow.
    GetAddrs = "struct sctp_getaddrs", 8 {
        assoc_id: i32 = "assoc_id" @ 0;
        number: u32 = "addr_num" @ 4;
    }
    /// `SO_LINGER`; seconds.
    Linger = "struct linger", 8 {
        on: i32 = "l_onoff" @ 0;
        seconds: i32 = "l_linger" @ 4;
    }
    /// `SO_RCVTIMEO` and `SO_SNDTIMEO`.
    TimeValue = "struct timeval", 16 {
        seconds: i64 = "tv_sec" @ 0;
        microseconds: i64 = "tv_usec" @ 8;
    }
}
