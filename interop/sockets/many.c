/* One-to-many sockets (RFC 6458, section 3), and associations branched off (section 9.2). */
#include "probe.h"

static void with_changes(int fd)
{
	int on = 1;
	subscribe(fd, SCTP_ASSOC_CHANGE, 1);
	subscribe(fd, SCTP_SHUTDOWN_EVENT, 1);
	setsockopt(fd, SOL_SCTP, SCTP_RECVRCVINFO, &on, sizeof(on));
}

static void ids_step(const char *name, int fd)
{
	char buffer[256] = { 0 };
	struct sctp_assoc_ids *ids = (struct sctp_assoc_ids *)buffer;
	socklen_t length = sizeof(buffer);
	errno = 0;
	int result = getsockopt(fd, SOL_SCTP, SCTP_GET_ASSOC_ID_LIST, ids, &length);
	const char *all = "";
	for (unsigned int i = 0; result == 0 && i < ids->gaids_number_of_ids; i++)
		all = text("%s %s", all, association_name(ids->gaids_assoc_id[i]));
	got(name, "get SCTP_GET_ASSOC_ID_LIST", result, length, result == 0 ? text("%u:%s", ids->gaids_number_of_ids, all) : "");
}

static void implicit(void)
{
	int server = listening(SOCK_SEQPACKET), client = new_socket(AF_INET, SOCK_SEQPACKET);
	with_changes(server);
	with_changes(client);
	struct sockaddr_in address = v4("127.0.0.1", port_of(server));
	ids_step("none", client);
	CALL("send-without-address", send(client, "x", 1, 0));
	struct sctp_sndinfo info = { .snd_assoc_id = UNKNOWN_ID };
	CALL("send-unknown-id", send_info(client, NULL, "x", info));
	CALL("send", sendto(client, "hello", 5, 0, SA(address)));
	drain("server", server);
	drain("client", client);
	ids_step("ids", client);
	GET_INT("number", client, SOL_SCTP, SCTP_GET_ASSOC_NUMBER);
	struct sockaddr_storage peer;
	socklen_t length = sizeof(peer);
	CALL("getpeername", getpeername(client, ADDRESS(peer), &length));
	CALL("write", write(client, "x", 1));
	CALL("send-still-without-address", send(client, "x", 1, 0));
	info.snd_assoc_id = first_id(client);
	CALL("send-by-id", send_info(client, NULL, "by id", info));
	info.snd_assoc_id = SCTP_CURRENT_ASSOC;
	CALL("send-current", send_info(client, NULL, "x", info));
	info.snd_assoc_id = UNKNOWN_ID;
	CALL("send-address-and-unknown-id", send_info(client, &address, "both", info));
	drain("by-id", server);
	struct sockaddr_in port0 = v4("127.0.0.1", 0);
	CALL("send-to-port-0", sendto(client, "x", 1, 0, SA(port0)));
	struct sockaddr_in6 six = v6("::1", ntohs(address.sin_port));
	CALL("send-to-inet6", sendto(client, "x", 1, 0, SA(six)));
	CALL("shutdown", shutdown(client, SHUT_WR));
	CALL("accept", accept4(server, NULL, NULL, SOCK_NONBLOCK));
	poll_step("ready", client);
	CALL("close", close(client));
	drain("end", server);
	ids_step("end.ids", server);
	CALL("empty", sendto(server, "", 0, 0, SA(address)));
}

static void connecting(void)
{
	int server = listening(SOCK_SEQPACKET), other = listening(SOCK_SEQPACKET), client = new_socket(AF_INET, SOCK_SEQPACKET);
	with_changes(client);
	struct sockaddr_in address = v4("127.0.0.1", port_of(server)), second = v4("127.0.0.1", port_of(other));
	CALL("connect", connect(client, SA(address)));
	CALL("again", connect(client, SA(address)));
	CALL("other", connect(client, SA(second)));
	GET_INT("number", client, SOL_SCTP, SCTP_GET_ASSOC_NUMBER);
	CALL("send", send(client, "x", 1, 0));
	drain("client", client);
	int refused = new_socket(AF_INET, SOCK_SEQPACKET);
	with_changes(refused);
	int unused = bound(SOCK_STREAM, "127.0.0.1");
	struct sockaddr_in nowhere = v4("127.0.0.1", port_of(unused));
	close(unused);
	CALL("refused", connect(refused, SA(nowhere)));
	drain("refused.events", refused);
	GET_INT("refused.error", refused, SOL_SOCKET, SO_ERROR);
	CALL("refused-send", sendto(refused, "x", 1, 0, SA(nowhere)));
	drain("refused-send.events", refused);
	GET_INT("refused-send.error", refused, SOL_SOCKET, SO_ERROR);
	GET_INT("refused-send.number", refused, SOL_SCTP, SCTP_GET_ASSOC_NUMBER);
	/* A socket that is bound and does not listen. */
	int deaf = bound(SOCK_SEQPACKET, "127.0.0.1");
	struct sockaddr_in not_listening = v4("127.0.0.1", port_of(deaf));
	CALL("not-listening", connect(refused, SA(not_listening)));
	CALL("listens-later.listen", listen(deaf, 1));
	CALL("listens-later", connect(refused, SA(not_listening)));
}

static void end_of_one(void)
{
	struct pair p = associated(with_changes);
	struct sctp_sndinfo info = { .snd_flags = SCTP_EOF, .snd_assoc_id = p.client_id };
	CALL("eof-with-data", send_info(p.client, NULL, "data", info));
	CALL("eof-by-wrong-id", send_info(p.client, NULL, NULL, (struct sctp_sndinfo){ .snd_flags = SCTP_EOF, .snd_assoc_id = UNKNOWN_ID }));
	CALL("eof", send_info(p.client, NULL, NULL, info));
	drain("server", p.server);
	drain("client", p.client);
	ids_step("client.ids", p.client);
	ids_step("server.ids", p.server);
	info.snd_assoc_id = p.client_id;
	CALL("after-end", send_info(p.client, NULL, "data", (struct sctp_sndinfo){ .snd_assoc_id = p.client_id }));
	CALL("after-end.eof", send_info(p.client, NULL, NULL, info));
	CALL("again", sendto(p.client, "again", 5, 0, SA(p.server_address)));
	drain("again.server", p.server);
	drain("again.client", p.client);
	step("again.new-id", "first id", first_id(p.client) == p.client_id ? "the same as before" : "another one");
	p = associated(with_changes);
	info = (struct sctp_sndinfo){ .snd_flags = SCTP_ABORT, .snd_assoc_id = p.client_id };
	CALL("abort", send_info(p.client, NULL, "reason", info));
	drain("abort.server", p.server);
	drain("abort.client", p.client);
	ids_step("abort.ids", p.client);
	p = associated(with_changes);
	info = (struct sctp_sndinfo){ .snd_flags = SCTP_ABORT };
	CALL("abort-by-address", send_info(p.client, &p.server_address, NULL, info));
	drain("abort-by-address.server", p.server);
	/* Without an association. */
	CALL("new-with-abort", send_info(p.client, &p.server_address, NULL, info));
	info.snd_flags = SCTP_EOF;
	CALL("new-with-eof", send_info(p.client, &p.server_address, NULL, info));
	drain("new.server", p.server);
	/* Messages that were sent before EOF arrive. */
	p = associated(with_changes);
	info = (struct sctp_sndinfo){ .snd_assoc_id = p.client_id };
	for (int i = 1; i <= 3; i++)
		CALL(text("queued-%d", i), send_info(p.client, NULL, text("message %d", i), info));
	info.snd_flags = SCTP_EOF;
	CALL("queued.eof", send_info(p.client, NULL, NULL, info));
	CALL("queued.send-after-eof", send_info(p.client, NULL, "late", (struct sctp_sndinfo){ .snd_assoc_id = p.client_id }));
	drain("queued.server", p.server);
}

static void send_to_all(void)
{
	enum { CLIENTS = 3 };
	int server = listening(SOCK_SEQPACKET), clients[CLIENTS];
	struct sctp_sndinfo info = { .snd_flags = SCTP_SENDALL };
	CALL("none", send_info(server, NULL, "none", info));
	struct sockaddr_in address = v4("127.0.0.1", port_of(server));
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = new_socket(AF_INET, SOCK_STREAM);
		if (connect(clients[i], SA(address)) != 0)
			fail("connect");
	}
	pause_ms(100);
	GET_INT("number", server, SOL_SCTP, SCTP_GET_ASSOC_NUMBER);
	CALL("send", send_info(server, NULL, "to all", info));
	for (int i = 0; i < CLIENTS; i++)
		receive(text("client-%d", i + 1), clients[i]);
	info.snd_flags = SCTP_SENDALL | SCTP_EOF;
	CALL("eof", send_info(server, NULL, NULL, info));
	for (int i = 0; i < CLIENTS; i++)
		drain(text("eof.client-%d", i + 1), clients[i]);
	pause_ms(100);
	GET_INT("eof.number", server, SOL_SCTP, SCTP_GET_ASSOC_NUMBER);
}

static void peeloff(void)
{
	struct pair p = associated(with_changes);
	CALL("second", sendto(p.client, "second", 6, 0, SA(p.server_address)));
	int other = bound(SOCK_SEQPACKET, "127.0.0.1");
	CALL("other", sendto(other, "other", 5, 0, SA(p.server_address)));
	pause_ms(200);
	MADE("unknown-id", sctp_peeloff(p.server, UNKNOWN_ID));
	MADE("id-0", sctp_peeloff(p.server, 0));
	int branch = MADE("peeloff", sctp_peeloff(p.server, p.server_id));
	poll_step("ready", branch);
	drain("branch", branch);
	drain("rest", p.server);
	ids_step("rest.ids", p.server);
	ids_step("branch.ids", branch);
	MADE("again", sctp_peeloff(p.server, p.server_id));
	MADE("branch-again", sctp_peeloff(branch, p.server_id));
	GET_INT("type", branch, SOL_SOCKET, SO_TYPE);
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);
	CALL("getpeername", getpeername(branch, ADDRESS(address), &length));
	step("peer", "getpeername", address_name(&address, length));
	CALL("send", send(branch, "plain send", 10, 0));
	drain("client", p.client);
	CALL("sendto", sendto(branch, "x", 1, 0, SA(p.server_address)));
	CALL("listen", listen(branch, 5));
	CALL("connect", connect(branch, SA(p.server_address)));
	CALL("answer", sendto(p.client, "to the branch", 13, 0, SA(p.server_address)));
	drain("answer", branch);
	struct sctp_sndinfo info = { .snd_assoc_id = UNKNOWN_ID };
	CALL("send-unknown-id", send_info(branch, NULL, "id", info));
	CALL("shutdown", shutdown(branch, SHUT_WR));
	drain("shutdown.client", p.client);
	drain("shutdown.branch", branch);
	CALL("send-after", send(branch, "x", 1, 0));
	poll_step("after", branch);
	int flagged = bound(SOCK_SEQPACKET, "127.0.0.1");
	CALL("third", sendto(flagged, "third", 5, 0, SA(p.server_address)));
	pause_ms(200);
	discard(p.server);
	struct sctp_assoc_ids *ids = malloc(256);
	socklen_t size = 256;
	CALL("ids", getsockopt(p.server, SOL_SCTP, SCTP_GET_ASSOC_ID_LIST, ids, &size));
	/* Debian's libsctp has a header for sctp_peeloff_flags, and no function that programs can link. */
	sctp_peeloff_flags_arg_t flags = { { ids->gaids_assoc_id[0], -1 }, SOCK_NONBLOCK | SOCK_CLOEXEC };
	socklen_t flags_length = sizeof(flags);
	int made_with_flags = MADE("flags", getsockopt(p.server, SOL_SCTP, SCTP_SOCKOPT_PEELOFF_FLAGS, &flags, &flags_length));
	step("flags.descriptor", "get SCTP_SOCKOPT_PEELOFF_FLAGS", made_with_flags == flags.p_arg.sd ? "the result" : "not the result");
	flags.flags = 0x77;
	flags_length = sizeof(flags);
	CALL("flags.unknown", getsockopt(p.server, SOL_SCTP, SCTP_SOCKOPT_PEELOFF_FLAGS, &flags, &flags_length));
	step("flags.nonblock", "F_GETFL", fcntl(made_with_flags, F_GETFL) & O_NONBLOCK ? "O_NONBLOCK" : "0");
	step("flags.cloexec", "F_GETFD", fcntl(made_with_flags, F_GETFD) & FD_CLOEXEC ? "FD_CLOEXEC" : "0");
	int one = new_socket(AF_INET, SOCK_STREAM);
	MADE("one-to-one", sctp_peeloff(one, 0));
	sctp_peeloff_arg_t argument = { 0 };
	socklen_t argument_length = 4;
	CALL("short", getsockopt(p.server, SOL_SCTP, SCTP_SOCKOPT_PEELOFF, &argument, &argument_length));
	CALL("close", close(made_with_flags));
}

static void closing(void)
{
	struct pair p = associated(with_changes);
	int other = bound(SOCK_SEQPACKET, "127.0.0.1");
	with_changes(other);
	CALL("second", sendto(other, "second", 6, 0, SA(p.server_address)));
	discard(p.server);
	discard(other);
	CALL("close", close(p.server));
	drain("first-client", p.client);
	drain("second-client", other);
	p = associated(with_changes);
	CALL("unread", sendto(p.client, "unread", 6, 0, SA(p.server_address)));
	pause_ms(200);
	CALL("unread.close", close(p.server));
	drain("unread.client", p.client);
	p = associated(with_changes);
	struct linger none = { 1, 0 };
	CALL("linger", setsockopt(p.server, SOL_SOCKET, SO_LINGER, &none, sizeof(none)));
	CALL("linger.close", close(p.server));
	drain("linger.client", p.client);
}

static void autoclose(void)
{
	int one = new_socket(AF_INET, SOCK_STREAM);
	GET_INT("one-to-one.get", one, SOL_SCTP, SCTP_AUTOCLOSE);
	SET_INT("one-to-one", one, SOL_SCTP, SCTP_AUTOCLOSE, 1);
	int server = listening(SOCK_SEQPACKET), client = new_socket(AF_INET, SOCK_SEQPACKET);
	with_changes(server);
	SET_INT("set", server, SOL_SCTP, SCTP_AUTOCLOSE, 1);
	GET_INT("get", server, SOL_SCTP, SCTP_AUTOCLOSE);
	struct sockaddr_in address = v4("127.0.0.1", port_of(server));
	CALL("send", sendto(client, "x", 1, 0, SA(address)));
	drain("before", server);
	wait_for(server, POLLIN, 5000);
	drain("after", server);
	ids_step("ids", server);
	SET_INT("large", server, SOL_SCTP, SCTP_AUTOCLOSE, 0x7fffffff);
	GET_INT("large.get", server, SOL_SCTP, SCTP_AUTOCLOSE);
	SET_INT("negative", server, SOL_SCTP, SCTP_AUTOCLOSE, -1);
}

/* Options of associations: identifiers that do not exist, and 0, 1 and 2. */
static void identifiers(void)
{
	struct pair p = associated(with_changes);
	static const struct {
		const char *name;
		sctp_assoc_t id;
	} ids[] = { { "unknown", UNKNOWN_ID }, { "negative", -5 }, { "future", 0 }, { "current", 1 }, { "all", 2 } };
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		const char *name = ids[i].name;
		struct sctp_status status = { .sstat_assoc_id = ids[i].id };
		GET(text("status.%s", name), p.client, SCTP_STATUS, status, "state=%d", status.sstat_state);
		struct sctp_rtoinfo rto = { .srto_assoc_id = ids[i].id };
		GET(text("rtoinfo.%s", name), p.client, SCTP_RTOINFO, rto, "min=%u", rto.srto_min);
		SET(text("rtoinfo-set.%s", name), p.client, SCTP_RTOINFO, rto);
		struct sctp_assoc_value value = { ids[i].id, 3 };
		SET(text("context.%s", name), p.client, SCTP_CONTEXT, value);
		GET(text("context-get.%s", name), p.client, SCTP_CONTEXT, value, "%u", value.assoc_value);
		struct sctp_event event = { ids[i].id, SCTP_ASSOC_CHANGE, 1 };
		SET(text("event.%s", name), p.client, SCTP_EVENT, event);
		GET(text("event-get.%s", name), p.client, SCTP_EVENT, event, "%u", event.se_on);
		struct sctp_sack_info sack = { ids[i].id, 100, 2 };
		SET(text("sack.%s", name), p.client, SCTP_DELAYED_SACK, sack);
		struct sctp_prim primary = { .ssp_assoc_id = ids[i].id };
		memcpy(&primary.ssp_addr, &p.server_address, sizeof(p.server_address));
		SET(text("primary.%s", name), p.client, SCTP_PRIMARY_ADDR, primary);
		struct sockaddr *list = NULL;
		errno = 0;
		int number = sctp_getpaddrs(p.client, ids[i].id, &list);
		step(text("peers.%s", name), "sctp_getpaddrs", number < 0 ? text("-1 %s", error_name(errno)) : addresses_text(list, number));
		errno = 0;
		number = sctp_getladdrs(p.client, ids[i].id, &list);
		step(text("locals.%s", name), "sctp_getladdrs", number < 0 ? text("-1 %s", error_name(errno)) : addresses_text(list, number));
	}
	struct sctp_assoc_value value = { p.client_id, 0 };
	GET("context-of-association", p.client, SCTP_CONTEXT, value, "%u", value.assoc_value);
	char small[6] = { 0 };
	socklen_t length = sizeof(small);
	CALL("short-id-list", getsockopt(p.client, SOL_SCTP, SCTP_GET_ASSOC_ID_LIST, small, &length));
}

/* An identifier with the address of another association, or of none. */
static void wrong_identifiers(void)
{
	struct pair p = associated(NULL);
	int other_server = bound(SOCK_SEQPACKET, "127.0.0.2");
	CALL("listen", listen(other_server, 5));
	struct sockaddr_in other = v4("127.0.0.2", port_of(other_server)), wrong_port = p.server_address;
	wrong_port.sin_port = htons(ntohs(wrong_port.sin_port) == 1 ? 2 : 1);
	CALL("send", sendto(p.client, "data", 4, 0, SA(other)));
	pause_ms(QUIET);
	const struct {
		const char *name;
		sctp_assoc_t id;
		const struct sockaddr_in *address;
	} ids[] = {
		{ "right", p.client_id, &p.server_address }, { "of-another", p.client_id, &other },
		{ "wrong-port", p.client_id, &wrong_port }, { "unknown", UNKNOWN_ID, &p.server_address },
		{ "negative", -5, &p.server_address }, { "future", 0, &p.server_address }, { "current", 1, &p.server_address },
		{ "all", 2, &p.server_address },
	};
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		const char *name = ids[i].name;
		struct sctp_paddrparams params = { .spp_assoc_id = ids[i].id, .spp_hbinterval = 7000 };
		memcpy(&params.spp_address, ids[i].address, sizeof(*ids[i].address));
		SET(text("params.%s", name), p.client, SCTP_PEER_ADDR_PARAMS, params);
		GET(text("params-get.%s", name), p.client, SCTP_PEER_ADDR_PARAMS, params, "interval=%u", params.spp_hbinterval);
		struct sctp_paddrthlds limits = { .spt_assoc_id = ids[i].id, .spt_pathmaxrxt = 4 };
		memcpy(&limits.spt_address, ids[i].address, sizeof(*ids[i].address));
		SET(text("thresholds.%s", name), p.client, SCTP_PEER_ADDR_THLDS, limits);
		GET(text("thresholds-get.%s", name), p.client, SCTP_PEER_ADDR_THLDS, limits, "%u", limits.spt_pathmaxrxt);
		struct sctp_paddrinfo info = { .spinfo_assoc_id = ids[i].id };
		memcpy(&info.spinfo_address, ids[i].address, sizeof(*ids[i].address));
		GET(text("info.%s", name), p.client, SCTP_GET_PEER_ADDR_INFO, info, "state=%d", info.spinfo_state);
		struct sctp_udpencaps udp = { .sue_assoc_id = ids[i].id };
		memcpy(&udp.sue_address, ids[i].address, sizeof(*ids[i].address));
		GET(text("udp.%s", name), p.client, SCTP_REMOTE_UDP_ENCAPS_PORT, udp, "-");
		struct sctp_probeinterval probes = { .spi_assoc_id = ids[i].id };
		memcpy(&probes.spi_address, ids[i].address, sizeof(*ids[i].address));
		GET(text("probes.%s", name), p.client, SCTP_PLPMTUD_PROBE_INTERVAL, probes, "%s", some(probes.spi_interval));
		struct sctp_prim primary = { .ssp_assoc_id = ids[i].id };
		memcpy(&primary.ssp_addr, ids[i].address, sizeof(*ids[i].address));
		SET(text("primary.%s", name), p.client, SCTP_PRIMARY_ADDR, primary);
	}
	static const struct {
		const char *name;
		int option;
	} supported[] = {
		{ "pr", SCTP_PR_SUPPORTED }, { "reconfig", SCTP_RECONFIG_SUPPORTED }, { "asconf", SCTP_ASCONF_SUPPORTED },
		{ "auth", SCTP_AUTH_SUPPORTED }, { "ecn", SCTP_ECN_SUPPORTED }, { "interleaving", SCTP_INTERLEAVING_SUPPORTED },
	};
	for (size_t i = 0; i < sizeof(supported) / sizeof(supported[0]); i++) {
		struct sctp_assoc_value value = { p.client_id, 0 };
		set(text("supported.%s", supported[i].name), "set, of an association",
		    (errno = 0, setsockopt(p.client, SOL_SCTP, supported[i].option, &value, sizeof(value))));
		value = (struct sctp_assoc_value){ 0, 7 };
		socklen_t length = sizeof(value);
		errno = 0;
		int result = getsockopt(p.client, SOL_SCTP, supported[i].option, &value, &length);
		got(text("supported.%s.get", supported[i].name), "get", result, length, text("%u", value.assoc_value));
	}
}

const struct probe_case many_cases[] = {
	{ "many.implicit", implicit }, { "many.connect", connecting }, { "many.end-of-one", end_of_one },
	{ "many.sendall", send_to_all }, { "many.peeloff", peeloff }, { "many.close", closing },
	{ "many.autoclose", autoclose }, { "many.identifiers", identifiers }, { "many.wrong-identifiers", wrong_identifiers },
	{ NULL, NULL },
};
