/* Values of socket options (RFC 6458, section 8). Defaults, changes, limits and wrong values. */
#include "probe.h"

static void timers(void)
{
	int fd = new_socket(AF_INET, SOCK_STREAM);
	struct sctp_rtoinfo rto = { 0 };
	GET("rto", fd, SCTP_RTOINFO, rto, "initial=%u max=%u min=%u", rto.srto_initial, rto.srto_max, rto.srto_min);
	rto = (struct sctp_rtoinfo){ 0, 2000, 10000, 500 };
	SET("rto.set", fd, SCTP_RTOINFO, rto);
	rto = (struct sctp_rtoinfo){ 0, 1500, 0, 0 };
	SET("rto.zeros", fd, SCTP_RTOINFO, rto);
	GET("rto.get", fd, SCTP_RTOINFO, rto, "initial=%u max=%u min=%u", rto.srto_initial, rto.srto_max, rto.srto_min);
	rto = (struct sctp_rtoinfo){ 0, 1000, 500, 2000 };
	SET("rto.min-above-max", fd, SCTP_RTOINFO, rto);
	rto = (struct sctp_rtoinfo){ 0, 20000, 10000, 500 };
	SET("rto.initial-above-max", fd, SCTP_RTOINFO, rto);
	rto = (struct sctp_rtoinfo){ 0, 100, 10000, 500 };
	SET("rto.initial-below-min", fd, SCTP_RTOINFO, rto);
	struct sctp_assocparams association = { 0 };
	GET("association", fd, SCTP_ASSOCINFO, association, "maxrxt=%u destinations=%u peer_rwnd=%u local_rwnd=%u cookie_life=%u",
	    association.sasoc_asocmaxrxt, association.sasoc_number_peer_destinations, association.sasoc_peer_rwnd,
	    association.sasoc_local_rwnd, association.sasoc_cookie_life);
	association = (struct sctp_assocparams){ .sasoc_asocmaxrxt = 4, .sasoc_cookie_life = 30000 };
	SET("association.set", fd, SCTP_ASSOCINFO, association);
	GET("association.get", fd, SCTP_ASSOCINFO, association, "maxrxt=%u cookie_life=%u", association.sasoc_asocmaxrxt,
	    association.sasoc_cookie_life);
	struct sctp_initmsg init = { 0 };
	GET("init", fd, SCTP_INITMSG, init, "out=%u in=%u attempts=%u timeout=%u", init.sinit_num_ostreams, init.sinit_max_instreams,
	    init.sinit_max_attempts, init.sinit_max_init_timeo);
	init = (struct sctp_initmsg){ 20, 0, 3, 0 };
	SET("init.set", fd, SCTP_INITMSG, init);
	GET("init.get", fd, SCTP_INITMSG, init, "out=%u in=%u attempts=%u timeout=%u", init.sinit_num_ostreams,
	    init.sinit_max_instreams, init.sinit_max_attempts, init.sinit_max_init_timeo);
	struct sctp_sack_info sack = { 0 };
	GET("sack", fd, SCTP_DELAYED_SACK, sack, "delay=%u freq=%u", sack.sack_delay, sack.sack_freq);
	sack = (struct sctp_sack_info){ 0, 100, 4 };
	SET("sack.set", fd, SCTP_DELAYED_SACK, sack);
	sack = (struct sctp_sack_info){ 0, 0, 3 };
	SET("sack.frequency", fd, SCTP_DELAYED_SACK, sack);
	GET("sack.get", fd, SCTP_DELAYED_SACK, sack, "delay=%u freq=%u", sack.sack_delay, sack.sack_freq);
	sack = (struct sctp_sack_info){ 0, 0, 1 };
	SET("sack.off", fd, SCTP_DELAYED_SACK, sack);
	GET("sack.off.get", fd, SCTP_DELAYED_SACK, sack, "delay=%u freq=%u", sack.sack_delay, sack.sack_freq);
	sack = (struct sctp_sack_info){ 0, 501, 2 };
	SET("sack.too-long", fd, SCTP_DELAYED_SACK, sack);
	struct sctp_assoc_value old = { 0, 150 };
	SET("sack.old-struct", fd, SCTP_DELAYED_SACK, old);
	GET("sack.old-struct.get", fd, SCTP_DELAYED_SACK, old, "%u", old.assoc_value);
	/* With an association. */
	struct pair p = connected(NULL);
	GET("connected.association", p.client, SCTP_ASSOCINFO, association,
	    "maxrxt=%u destinations=%u peer_rwnd=%s local_rwnd=%s cookie_life=%u", association.sasoc_asocmaxrxt,
	    association.sasoc_number_peer_destinations, some(association.sasoc_peer_rwnd), some(association.sasoc_local_rwnd),
	    association.sasoc_cookie_life);
	association = (struct sctp_assocparams){ .sasoc_asocmaxrxt = 7 };
	SET("connected.association.set", p.client, SCTP_ASSOCINFO, association);
	association = (struct sctp_assocparams){ .sasoc_cookie_life = 5000 };
	SET("connected.association.cookie-life", p.client, SCTP_ASSOCINFO, association);
	GET("connected.association.get", p.client, SCTP_ASSOCINFO, association, "maxrxt=%u cookie_life=%u",
	    association.sasoc_asocmaxrxt, association.sasoc_cookie_life);
	association = (struct sctp_assocparams){ .sasoc_asocmaxrxt = 100 };
	SET("connected.association.above-paths", p.client, SCTP_ASSOCINFO, association);
	rto = (struct sctp_rtoinfo){ 0, 2000, 10000, 500 };
	SET("connected.rto.set", p.client, SCTP_RTOINFO, rto);
	GET("connected.rto.get", p.client, SCTP_RTOINFO, rto, "initial=%u max=%u min=%u", rto.srto_initial, rto.srto_max, rto.srto_min);
	init = (struct sctp_initmsg){ 30, 30, 0, 0 };
	SET("connected.init.set", p.client, SCTP_INITMSG, init);
}

static void paths(void)
{
	int fd = new_socket(AF_INET, SOCK_STREAM);
	struct sctp_paddrparams params = { 0 };
#define PARAMS "interval=%u maxrxt=%u mtu=%s sackdelay=%u flags=%u", params.spp_hbinterval, params.spp_pathmaxrxt, \
	some(params.spp_pathmtu), params.spp_sackdelay, params.spp_flags
	GET("params", fd, SCTP_PEER_ADDR_PARAMS, params, PARAMS);
	params = (struct sctp_paddrparams){ .spp_hbinterval = 5000, .spp_pathmaxrxt = 3, .spp_flags = SPP_HB_ENABLE };
	SET("params.set", fd, SCTP_PEER_ADDR_PARAMS, params);
	GET("params.get", fd, SCTP_PEER_ADDR_PARAMS, params, PARAMS);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_HB_DISABLE };
	SET_LENGTH("params.152-bytes", fd, SCTP_PEER_ADDR_PARAMS, params, 152);
	GET("params.heartbeat-off", fd, SCTP_PEER_ADDR_PARAMS, params, PARAMS);
	SET_LENGTH("params.150-bytes", fd, SCTP_PEER_ADDR_PARAMS, params, 150);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_HB };
	SET("params.on-and-off", fd, SCTP_PEER_ADDR_PARAMS, params);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_PMTUD };
	SET("params.pmtud-on-and-off", fd, SCTP_PEER_ADDR_PARAMS, params);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_SACKDELAY };
	SET("params.sack-on-and-off", fd, SCTP_PEER_ADDR_PARAMS, params);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_HB_DEMAND };
	SET("params.demand", fd, SCTP_PEER_ADDR_PARAMS, params);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_SACKDELAY_ENABLE, .spp_sackdelay = 600 };
	SET("params.sack-too-long", fd, SCTP_PEER_ADDR_PARAMS, params);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_SACKDELAY_DISABLE };
	SET("params.sack-off", fd, SCTP_PEER_ADDR_PARAMS, params);
	GET("params.sack-off.get", fd, SCTP_PEER_ADDR_PARAMS, params, PARAMS);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_PMTUD_DISABLE, .spp_pathmtu = 100 };
	SET("params.small-mtu", fd, SCTP_PEER_ADDR_PARAMS, params);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_PMTUD_DISABLE, .spp_pathmtu = 1400 };
	SET("params.mtu", fd, SCTP_PEER_ADDR_PARAMS, params);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_DSCP, .spp_dscp = 0x28 };
	SET("params.dscp", fd, SCTP_PEER_ADDR_PARAMS, params);
	params = (struct sctp_paddrparams){ .spp_flags = 0x1000 };
	SET("params.unknown-flag", fd, SCTP_PEER_ADDR_PARAMS, params);
	struct pair p = connected(NULL);
	params = (struct sctp_paddrparams){ 0 };
	GET("connected.params", p.client, SCTP_PEER_ADDR_PARAMS, params, PARAMS);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_HB_DEMAND };
	memcpy(&params.spp_address, &p.server_address, sizeof(p.server_address));
	SET("connected.demand", p.client, SCTP_PEER_ADDR_PARAMS, params);
	GET("connected.path", p.client, SCTP_PEER_ADDR_PARAMS, params, PARAMS);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_HB_ENABLE, .spp_hbinterval = 12000, .spp_pathmaxrxt = 4 };
	memcpy(&params.spp_address, &p.server_address, sizeof(p.server_address));
	SET("connected.path.set", p.client, SCTP_PEER_ADDR_PARAMS, params);
	GET("connected.path.get", p.client, SCTP_PEER_ADDR_PARAMS, params, PARAMS);
	struct sockaddr_in unknown = v4("127.0.0.9", ntohs(p.server_address.sin_port));
	memcpy(&params.spp_address, &unknown, sizeof(unknown));
	SET("connected.unknown-path", p.client, SCTP_PEER_ADDR_PARAMS, params);
	GET("connected.unknown-path.get", p.client, SCTP_PEER_ADDR_PARAMS, params, PARAMS);
	struct sctp_paddrinfo info = { 0 };
	memcpy(&info.spinfo_address, &p.server_address, sizeof(p.server_address));
	GET("info", p.client, SCTP_GET_PEER_ADDR_INFO, info, "%s state=%d cwnd=%s rto=%s mtu=%s",
	    address_name(&info.spinfo_address, sizeof(info.spinfo_address)), info.spinfo_state, some(info.spinfo_cwnd),
	    some(info.spinfo_rto), some(info.spinfo_mtu));
	memcpy(&info.spinfo_address, &unknown, sizeof(unknown));
	GET("info.unknown-path", p.client, SCTP_GET_PEER_ADDR_INFO, info, "state=%d", info.spinfo_state);
	struct sctp_paddrinfo nothing = { 0 };
	GET("info.no-address", p.client, SCTP_GET_PEER_ADDR_INFO, nothing, "state=%d", nothing.spinfo_state);
	struct sctp_prim primary = { 0 };
	GET("primary", p.client, SCTP_PRIMARY_ADDR, primary, "%s", address_name(&primary.ssp_addr, sizeof(primary.ssp_addr)));
	memcpy(&primary.ssp_addr, &unknown, sizeof(unknown));
	SET("primary.unknown", p.client, SCTP_PRIMARY_ADDR, primary);
	memcpy(&primary.ssp_addr, &p.server_address, sizeof(p.server_address));
	SET("primary.set", p.client, SCTP_PRIMARY_ADDR, primary);
	SET("primary.not-connected", fd, SCTP_PRIMARY_ADDR, primary);
	GET("primary.not-connected.get", fd, SCTP_PRIMARY_ADDR, primary, "-");
	struct sctp_setpeerprim peer_primary = { 0 };
	memcpy(&peer_primary.sspp_addr, &unknown, sizeof(unknown));
	SET("peer-primary.not-local", p.client, SCTP_SET_PEER_PRIMARY_ADDR, peer_primary);
	struct sctp_paddrthlds limits = { 0 };
	GET("thresholds", fd, SCTP_PEER_ADDR_THLDS, limits, "maxrxt=%u pf=%u", limits.spt_pathmaxrxt, limits.spt_pathpfthld);
	limits = (struct sctp_paddrthlds){ .spt_pathmaxrxt = 6, .spt_pathpfthld = 2 };
	SET("thresholds.set", fd, SCTP_PEER_ADDR_THLDS, limits);
	GET("thresholds.get", fd, SCTP_PEER_ADDR_THLDS, limits, "maxrxt=%u pf=%u", limits.spt_pathmaxrxt, limits.spt_pathpfthld);
	struct sctp_paddrthlds_v2 newer = { 0 };
	GET("thresholds-v2", fd, SCTP_PEER_ADDR_THLDS_V2, newer, "maxrxt=%u pf=%u cp=%u", newer.spt_pathmaxrxt, newer.spt_pathpfthld,
	    newer.spt_pathcpthld);
	newer = (struct sctp_paddrthlds_v2){ .spt_pathmaxrxt = 6, .spt_pathpfthld = 2, .spt_pathcpthld = 1 };
	SET("thresholds-v2.cp-below-pf", fd, SCTP_PEER_ADDR_THLDS_V2, newer);
	newer.spt_pathcpthld = 5;
	SET("thresholds-v2.set", fd, SCTP_PEER_ADDR_THLDS_V2, newer);
	GET("thresholds-v2.get", fd, SCTP_PEER_ADDR_THLDS_V2, newer, "maxrxt=%u pf=%u cp=%u", newer.spt_pathmaxrxt,
	    newer.spt_pathpfthld, newer.spt_pathcpthld);
	limits = (struct sctp_paddrthlds){ 0 };
	memcpy(&limits.spt_address, &unknown, sizeof(unknown));
	GET("thresholds.unknown-path", p.client, SCTP_PEER_ADDR_THLDS, limits, "maxrxt=%u", limits.spt_pathmaxrxt);
	struct sctp_udpencaps udp = { 0 };
	GET("udp", fd, SCTP_REMOTE_UDP_ENCAPS_PORT, udp, "%s", some(udp.sue_port));
	udp.sue_port = htons(9900);
	SET("udp.set", fd, SCTP_REMOTE_UDP_ENCAPS_PORT, udp);
	GET("udp.get", fd, SCTP_REMOTE_UDP_ENCAPS_PORT, udp, "%u", ntohs(udp.sue_port));
	memcpy(&udp.sue_address, &unknown, sizeof(unknown));
	SET("udp.unknown-path", p.client, SCTP_REMOTE_UDP_ENCAPS_PORT, udp);
	struct sctp_probeinterval probe = { 0 };
	GET("probe", fd, SCTP_PLPMTUD_PROBE_INTERVAL, probe, "%u", probe.spi_interval);
	probe.spi_interval = 100;
	SET("probe.too-short", fd, SCTP_PLPMTUD_PROBE_INTERVAL, probe);
	probe.spi_interval = 10000;
	SET("probe.set", fd, SCTP_PLPMTUD_PROBE_INTERVAL, probe);
	GET("probe.get", fd, SCTP_PLPMTUD_PROBE_INTERVAL, probe, "%u", probe.spi_interval);
}

/* Options that are an integer. */
static void integers(void)
{
	static const struct {
		const char *name;
		int option, values[4];
	} list[] = {
		{ "nodelay", SCTP_NODELAY, { 1, 0, 5, -1 } }, { "disable-fragments", SCTP_DISABLE_FRAGMENTS, { 1, 0, 5, -1 } },
		{ "fragment-interleave", SCTP_FRAGMENT_INTERLEAVE, { 1, 0, 2, -1 } },
		{ "mapped", SCTP_I_WANT_MAPPED_V4_ADDR, { 1, 0, 5, -1 } }, { "rcvinfo", SCTP_RECVRCVINFO, { 1, 0, 5, -1 } },
		{ "nxtinfo", SCTP_RECVNXTINFO, { 1, 0, 5, -1 } }, { "point", SCTP_PARTIAL_DELIVERY_POINT, { 0, 1000, 200000, -1 } },
		{ "maxseg", SCTP_MAXSEG, { 0, 1000, 10, 70000 } }, { "auto-asconf", SCTP_AUTO_ASCONF, { 1, 0, 5, -1 } },
		{ "max-burst", SCTP_MAX_BURST, { 0, 1, 10, -1 } },
	};
	int fd = bound(SOCK_STREAM, "127.0.0.1");
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		get_int(list[i].name, "get", fd, SOL_SCTP, list[i].option);
		for (int v = 0; v < 4; v++) {
			int value = list[i].values[v];
			errno = 0;
			int result = setsockopt(fd, SOL_SCTP, list[i].option, &value, sizeof(value));
			call(text("%s.set-%d", list[i].name, value), text("set %d", value), result);
			get_int(text("%s.then-%d", list[i].name, value), "get", fd, SOL_SCTP, list[i].option);
		}
	}
}

/* Options that are a struct sctp_assoc_value. */
static void association_values(void)
{
	static const struct {
		const char *name;
		int option;
		uint32_t values[4];
	} list[] = {
		{ "context", SCTP_CONTEXT, { 1, 0, 77, UINT32_MAX } }, { "maxseg", SCTP_MAXSEG, { 0, 1000, 10, 70000 } },
		{ "max-burst", SCTP_MAX_BURST, { 0, 1, 10, 1000 } }, { "pr", SCTP_PR_SUPPORTED, { 1, 0, 5, 1 } },
		{ "reconfig", SCTP_RECONFIG_SUPPORTED, { 1, 0, 5, 1 } }, { "asconf", SCTP_ASCONF_SUPPORTED, { 1, 0, 5, 1 } },
		{ "auth", SCTP_AUTH_SUPPORTED, { 1, 0, 5, 1 } }, { "ecn", SCTP_ECN_SUPPORTED, { 1, 0, 5, 1 } },
		{ "interleaving", SCTP_INTERLEAVING_SUPPORTED, { 1, 0, 5, 1 } },
		{ "expose-pf", SCTP_EXPOSE_POTENTIALLY_FAILED_STATE, { 1, 0, 2, 3 } },
		{ "stream-reset", SCTP_ENABLE_STREAM_RESET, { 1, 0, 7, 8 } }, { "scheduler", SCTP_STREAM_SCHEDULER, { 1, 0, 2, 99 } },
	};
	int fd = bound(SOCK_STREAM, "127.0.0.1"), many = bound(SOCK_SEQPACKET, "127.0.0.1");
	struct pair p = connected(NULL);
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		struct sctp_assoc_value value = { 0, 0 };
		GET(list[i].name, fd, list[i].option, value, "%u", value.assoc_value);
		for (int v = 0; v < 4; v++) {
			value = (struct sctp_assoc_value){ 0, list[i].values[v] };
			SET(text("%s.set-%d-%u", list[i].name, v, value.assoc_value), fd, list[i].option, value);
			GET(text("%s.then-%d", list[i].name, v), fd, list[i].option, value, "%u", value.assoc_value);
		}
		value = (struct sctp_assoc_value){ 0, list[i].values[0] };
		SET(text("%s.connected", list[i].name), p.client, list[i].option, value);
		GET(text("%s.connected.get", list[i].name), p.client, list[i].option, value, "%u", value.assoc_value);
		value.assoc_id = UNKNOWN_ID;
		SET(text("%s.unknown-id", list[i].name), many, list[i].option, value);
		GET(text("%s.unknown-id.get", list[i].name), many, list[i].option, value, "%u", value.assoc_value);
		SET_LENGTH(text("%s.short", list[i].name), fd, list[i].option, value, 3);
	}
	/* The interleaving option needs the option of fragments. */
	int on = 1;
	setsockopt(fd, SOL_SCTP, SCTP_FRAGMENT_INTERLEAVE, &on, sizeof(on));
	struct sctp_assoc_value value = { 0, 1 };
	SET("interleaving-with-fragments", fd, SCTP_INTERLEAVING_SUPPORTED, value);
	GET("interleaving-with-fragments.get", fd, SCTP_INTERLEAVING_SUPPORTED, value, "%u", value.assoc_value);
	int off = 0;
	setsockopt(fd, SOL_SCTP, SCTP_FRAGMENT_INTERLEAVE, &off, sizeof(off));
	GET("interleaving-without-fragments.get", fd, SCTP_INTERLEAVING_SUPPORTED, value, "%u", value.assoc_value);
}

/* Options of the socket level and of IP. */
static void socket_level(void)
{
	int fd = new_socket(AF_INET, SOCK_STREAM);
	struct linger linger = { 0, 0 };
	socklen_t length = sizeof(linger);
	CALL("linger", getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &length));
	step("linger.value", "get SO_LINGER", text("%d %d", linger.l_onoff, linger.l_linger));
	linger = (struct linger){ 1, 5 };
	CALL("linger.set", setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	CALL("linger.short", setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, 4));
	CALL("linger.get", getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &length));
	step("linger.get.value", "get SO_LINGER", text("%d %d", linger.l_onoff, linger.l_linger));
	SET_INT("sndbuf", fd, SOL_SOCKET, SO_SNDBUF, 50000);
	GET_INT("sndbuf.get", fd, SOL_SOCKET, SO_SNDBUF);
	SET_INT("sndbuf.small", fd, SOL_SOCKET, SO_SNDBUF, 1);
	GET_INT("sndbuf.small.get", fd, SOL_SOCKET, SO_SNDBUF);
	SET_INT("rcvbuf", fd, SOL_SOCKET, SO_RCVBUF, 50000);
	GET_INT("rcvbuf.get", fd, SOL_SOCKET, SO_RCVBUF);
	SET_INT("rcvbuf.small", fd, SOL_SOCKET, SO_RCVBUF, 1);
	GET_INT("rcvbuf.small.get", fd, SOL_SOCKET, SO_RCVBUF);
	CALL("rcvbuf.short", setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &length, 2));
	struct timeval time = { 1, 500000 };
	CALL("rcvtimeo.set", setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)));
	time = (struct timeval){ 0 };
	length = sizeof(time);
	CALL("rcvtimeo", getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, &length));
	step("rcvtimeo.value", "get SO_RCVTIMEO", text("%ld.%06ld", (long)time.tv_sec, (long)time.tv_usec));
	time = (struct timeval){ 0, 1000000 };
	CALL("rcvtimeo.wrong", setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)));
	CALL("rcvtimeo.short", setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, 8));
	time = (struct timeval){ -1, 0 };
	CALL("sndtimeo.negative", setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)));
	length = sizeof(time);
	CALL("sndtimeo", getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, &length));
	step("sndtimeo.value", "get SO_SNDTIMEO", text("%ld.%06ld", (long)time.tv_sec, (long)time.tv_usec));
	SET_INT("error", fd, SOL_SOCKET, SO_ERROR, 1);
	SET_INT("type", fd, SOL_SOCKET, SO_TYPE, 1);
	SET_INT("accepting", fd, SOL_SOCKET, SO_ACCEPTCONN, 1);
	SET_INT("keepalive", fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	GET_INT("keepalive.get", fd, SOL_SOCKET, SO_KEEPALIVE);
	SET_INT("broadcast", fd, SOL_SOCKET, SO_BROADCAST, 1);
	SET_INT("priority", fd, SOL_SOCKET, SO_PRIORITY, 3);
	GET_INT("priority.get", fd, SOL_SOCKET, SO_PRIORITY);
	SET_INT("oobinline", fd, SOL_SOCKET, SO_OOBINLINE, 1);
	SET_INT("timestamp", fd, SOL_SOCKET, SO_TIMESTAMP, 1);
	CALL("bindtodevice", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
	char device[16] = "";
	length = sizeof(device);
	CALL("bindtodevice.get", getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, &length));
	step("bindtodevice.value", "get SO_BINDTODEVICE", text("%u \"%s\"", length, device));
	CALL("bindtodevice.unknown", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "nowhere0", 9));
	SET_INT("tos", fd, IPPROTO_IP, IP_TOS, 0x10);
	GET_INT("tos.get", fd, IPPROTO_IP, IP_TOS);
	SET_INT("ttl", fd, IPPROTO_IP, IP_TTL, 33);
	GET_INT("ttl.get", fd, IPPROTO_IP, IP_TTL);
	SET_INT("freebind", fd, IPPROTO_IP, IP_FREEBIND, 1);
	SET_INT("mtu-discover", fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	SET_INT("tcp-level", fd, IPPROTO_TCP, 1, 1);
	SET_INT("unknown-level", fd, 4711, 1, 1);
	SET_INT("unknown-option", fd, SOL_SOCKET, 9999, 1);
	GET_INT("unknown-option.get", fd, SOL_SOCKET, 9999);
	SET_INT("v6only-on-inet", fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	int six = new_socket(AF_INET6, SOCK_STREAM);
	GET_INT("v6only", six, IPPROTO_IPV6, IPV6_V6ONLY);
	SET_INT("tclass", six, IPPROTO_IPV6, IPV6_TCLASS, 0x20);
	GET_INT("tclass.get", six, IPPROTO_IPV6, IPV6_TCLASS);
	SET_INT("tos-on-inet6", six, IPPROTO_IP, IP_TOS, 0x10);
	SET_INT("hops", six, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 30);
	short half = 0;
	length = sizeof(half);
	CALL("short-int", getsockopt(fd, SOL_SOCKET, SO_TYPE, &half, &length));
	step("short-int.value", "get SO_TYPE, 2 bytes", text("%u bytes, %d", length, half));
}

static void status(void)
{
	int fd = new_socket(AF_INET, SOCK_STREAM);
	struct sctp_status s = { 0 };
	GET("unconnected", fd, SCTP_STATUS, s, "state=%d", s.sstat_state);
	struct pair p = connected(NULL);
	GET("connected", p.client, SCTP_STATUS, s, "id=%s state=%d rwnd=%s unacked=%u pending=%u in=%u out=%u point=%s primary=%s",
	    association_name(s.sstat_assoc_id), s.sstat_state, some(s.sstat_rwnd), s.sstat_unackdata, s.sstat_penddata,
	    s.sstat_instrms, s.sstat_outstrms, some(s.sstat_fragmentation_point),
	    address_name(&s.sstat_primary.spinfo_address, sizeof(s.sstat_primary.spinfo_address)));
	char bytes[300] = { 0 };
	socklen_t length = sizeof(bytes);
	CALL("larger-buffer", getsockopt(p.client, SOL_SCTP, SCTP_STATUS, bytes, &length));
	step("larger-buffer.length", "get SCTP_STATUS", text("%u", length));
	length = sizeof(s) - 4;
	CALL("smaller-buffer", getsockopt(p.client, SOL_SCTP, SCTP_STATUS, bytes, &length));
	CALL("set", setsockopt(p.client, SOL_SCTP, SCTP_STATUS, bytes, sizeof(s)));
	/* Unread data counts as pending. */
	CALL("send", send(p.client, "12345", 5, 0));
	pause_ms(100);
	GET("pending", p.server, SCTP_STATUS, s, "pending=%u", s.sstat_penddata);
	discard(p.server);
	pause_ms(300);
	struct sctp_assoc_stats counters = { 0 };
	GET("stats", p.client, SCTP_GET_ASSOC_STATS, counters,
	    "%s isacks=%s osacks=%s opackets=%s ipackets=%s rtx=%llu outofseq=%llu dups=%llu gaps=%llu ouod=%llu iuod=%llu ood=%llu iod=%llu "
	    "octrl=%s ictrl=%s",
	    counters.sas_obs_rto_ipaddr.ss_family == 0 ? "no address" : address_name(&counters.sas_obs_rto_ipaddr, sizeof(struct sockaddr_storage)),
	    some(counters.sas_isacks), some(counters.sas_osacks), some(counters.sas_opackets), some(counters.sas_ipackets),
	    (unsigned long long)counters.sas_rtxchunks, (unsigned long long)counters.sas_outofseqtsns,
	    (unsigned long long)counters.sas_idupchunks, (unsigned long long)counters.sas_gapcnt,
	    (unsigned long long)counters.sas_ouodchunks, (unsigned long long)counters.sas_iuodchunks,
	    (unsigned long long)counters.sas_oodchunks, (unsigned long long)counters.sas_iodchunks,
	    some(counters.sas_octrlchunks), some(counters.sas_ictrlchunks));
	send_info(p.client, NULL, "unordered", (struct sctp_sndinfo){ .snd_flags = SCTP_UNORDERED });
	pause_ms(100);
	GET("stats.server", p.server, SCTP_GET_ASSOC_STATS, counters, "iuod=%llu iod=%llu", (unsigned long long)counters.sas_iuodchunks,
	    (unsigned long long)counters.sas_iodchunks);
	GET("stats.unconnected", fd, SCTP_GET_ASSOC_STATS, counters, "-");
	length = 4;
	CALL("stats.short", getsockopt(p.client, SOL_SCTP, SCTP_GET_ASSOC_STATS, &counters, &length));
	step("stats.short.length", "get SCTP_GET_ASSOC_STATS", text("%u", length));
	length = 2;
	CALL("stats.too-short", getsockopt(p.client, SOL_SCTP, SCTP_GET_ASSOC_STATS, &counters, &length));
	CALL("shutdown", shutdown(p.client, SHUT_WR));
	pause_ms(300);
	GET("ended", p.client, SCTP_STATUS, s, "state=%d", s.sstat_state);
	GET_INT("one-to-one.number", p.client, SOL_SCTP, SCTP_GET_ASSOC_NUMBER);
}

const struct probe_case option_cases[] = {
	{ "option.timers", timers }, { "option.paths", paths }, { "option.integers", integers },
	{ "option.association-values", association_values }, { "option.socket-level", socket_level }, { "option.status", status },
	{ NULL, NULL },
};
