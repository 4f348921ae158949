/* Addresses of an association: added, removed and preferred while it is up (RFC 5061; RFC 6458, sections 8.1.8, 8.3.1). */
#include "probe.h"

static int two_addresses(int type)
{
	int fd = new_socket(AF_INET, type);
	struct sockaddr_in list[2] = { v4("127.0.0.1", 0), v4("127.0.0.2", 0) };
	if (sctp_bindx(fd, ADDRESS(list[0]), 2, SCTP_BINDX_ADD_ADDR) != 0)
		fail("sctp_bindx");
	return fd;
}

static void peers_step(const char *name, int fd)
{
	struct sockaddr *list = NULL;
	errno = 0;
	int number = sctp_getpaddrs(fd, first_id(fd), &list);
	step(name, "sctp_getpaddrs", number < 0 ? text("-1 %s", error_name(errno)) : addresses_text(list, number));
}

static void several(void)
{
	int listener = two_addresses(SOCK_STREAM), client = two_addresses(SOCK_STREAM);
	subscribe(client, SCTP_PEER_ADDR_CHANGE, 1);
	CALL("listen", listen(listener, 5));
	int port = port_of(listener);
	struct sockaddr_in address = v4("127.0.0.1", port), second = v4("127.0.0.2", port);
	CALL("connect", connect(client, SA(address)));
	int server = MADE("accept", accept(listener, NULL, NULL));
	/* Heartbeats confirm the second address at a random time; this one does at once. */
	struct sctp_paddrparams demand = { .spp_flags = SPP_HB_DEMAND };
	memcpy(&demand.spp_address, &second, sizeof(second));
	SET("demand", client, SCTP_PEER_ADDR_PARAMS, demand);
	drain("client", client);
	peers_step("client.peers", client);
	peers_step("server.peers", server);
	struct sctp_prim primary = { 0 };
	GET("primary", client, SCTP_PRIMARY_ADDR, primary, "%s", address_name(&primary.ssp_addr, sizeof(primary.ssp_addr)));
	memcpy(&primary.ssp_addr, &second, sizeof(second));
	SET("primary.set", client, SCTP_PRIMARY_ADDR, primary);
	GET("primary.get", client, SCTP_PRIMARY_ADDR, primary, "%s", address_name(&primary.ssp_addr, sizeof(primary.ssp_addr)));
	drain("primary.events", client);
	CALL("send", send(client, "to the second", 13, 0));
	drain("server.data", server);
	struct sctp_paddrinfo info = { 0 };
	memcpy(&info.spinfo_address, &second, sizeof(second));
	GET("info", client, SCTP_GET_PEER_ADDR_INFO, info, "state=%d", info.spinfo_state);
	struct sockaddr_storage peer;
	socklen_t length = sizeof(peer);
	CALL("getpeername", getpeername(client, ADDRESS(peer), &length));
	step("getpeername.address", "getpeername", address_name(&peer, length));
	/* Requests that the peer uses an address as primary. */
	struct sctp_setpeerprim request = { 0 };
	struct sockaddr_in own = v4("127.0.0.2", port_of(server));
	memcpy(&request.sspp_addr, &own, sizeof(own));
	SET("peer-primary", server, SCTP_SET_PEER_PRIMARY_ADDR, request);
	drain("peer-primary.client", client);
	struct sockaddr_in foreign = v4("127.0.0.3", port_of(server));
	memcpy(&request.sspp_addr, &foreign, sizeof(foreign));
	SET("peer-primary.not-bound", server, SCTP_SET_PEER_PRIMARY_ADDR, request);
	struct sctp_paddrparams params = { .spp_flags = SPP_HB_DISABLE };
	memcpy(&params.spp_address, &second, sizeof(second));
	SET("one-path.heartbeat-off", client, SCTP_PEER_ADDR_PARAMS, params);
	params = (struct sctp_paddrparams){ .spp_flags = SPP_HB_ENABLE, .spp_hbinterval = 7000 };
	memcpy(&params.spp_address, &second, sizeof(second));
	SET("one-path.interval", client, SCTP_PEER_ADDR_PARAMS, params);
	GET("one-path.get", client, SCTP_PEER_ADDR_PARAMS, params, "interval=%u", params.spp_hbinterval);
	memcpy(&params.spp_address, &address, sizeof(address));
	GET("other-path.get", client, SCTP_PEER_ADDR_PARAMS, params, "interval=%u", params.spp_hbinterval);
}

static void changing(void)
{
	struct pair p = connected(NULL);
	subscribe(p.client, SCTP_PEER_ADDR_CHANGE, 1);
	subscribe(p.server, SCTP_PEER_ADDR_CHANGE, 1);
	struct sctp_assoc_value value = { 0, 0 };
	GET("supported", p.client, SCTP_ASCONF_SUPPORTED, value, "%u", value.assoc_value);
	struct sockaddr_in second = v4("127.0.0.2", port_of(p.server)), first = v4("127.0.0.1", port_of(p.server));
	CALL("add", sctp_bindx(p.server, ADDRESS(second), 1, SCTP_BINDX_ADD_ADDR));
	drain("add.client", p.client);
	drain("add.server", p.server);
	peers_step("add.peers", p.client);
	CALL("add-again", sctp_bindx(p.server, ADDRESS(second), 1, SCTP_BINDX_ADD_ADDR));
	struct sctp_setpeerprim request = { 0 };
	memcpy(&request.sspp_addr, &second, sizeof(second));
	SET("peer-primary", p.server, SCTP_SET_PEER_PRIMARY_ADDR, request);
	drain("peer-primary.client", p.client);
	struct sctp_prim primary = { 0 };
	GET("peer-primary.get", p.client, SCTP_PRIMARY_ADDR, primary, "%s", address_name(&primary.ssp_addr, sizeof(primary.ssp_addr)));
	CALL("remove", sctp_bindx(p.server, ADDRESS(first), 1, SCTP_BINDX_REM_ADDR));
	drain("remove.client", p.client);
	peers_step("remove.peers", p.client);
	CALL("remove-last", sctp_bindx(p.server, ADDRESS(second), 1, SCTP_BINDX_REM_ADDR));
	CALL("send", send(p.client, "to the new one", 14, 0));
	receive("recv", p.server);
	CALL("answer", send(p.server, "from the new one", 16, 0));
	receive("answer.recv", p.client);
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	CALL("getsockname", getsockname(p.server, ADDRESS(name), &length));
	step("getsockname.address", "getsockname", address_name(&name, length));
	CALL("getpeername", getpeername(p.client, ADDRESS(name), &length));
	step("getpeername.address", "getpeername", address_name(&name, length));
}

static void scopes(void)
{
	int fd = new_socket(AF_INET6, SOCK_SEQPACKET);
	struct sockaddr_in6 loopback = v6("::1", 0);
	CALL("bind", bind(fd, SA(loopback)));
	CALL("listen", listen(fd, 5));
	int client = new_socket(AF_INET6, SOCK_SEQPACKET), on = 1;
	struct sockaddr_in6 address = v6("::1", port_of(fd));
	setsockopt(fd, SOL_SCTP, SCTP_RECVRCVINFO, &on, sizeof(on));
	address.sin6_scope_id = 1;
	CALL("send-with-scope", sendto(client, "scoped", 6, 0, SA(address)));
	receive("recv", fd);
	address.sin6_scope_id = 0;
	address.sin6_flowinfo = htonl(0x12345);
	CALL("send-with-flow", sendto(client, "flow", 4, 0, SA(address)));
	receive("recv-flow", fd);
	GET_INT("number", client, SOL_SCTP, SCTP_GET_ASSOC_NUMBER);
	struct sockaddr_in6 link = v6("fe80::1", port_of(fd));
	int other = new_socket(AF_INET6, SOCK_SEQPACKET);
	CALL("link-local-without-scope", sendto(other, "x", 1, MSG_DONTWAIT, SA(link)));
	struct sockaddr_in plain = v4("127.0.0.1", port_of(fd));
	CALL("inet-to-inet6-only-bound", sendto(other, "x", 1, MSG_DONTWAIT, SA(plain)));
}

const struct probe_case address_cases[] = {
	{ "address.several", several }, { "address.change", changing }, { "address.scope", scopes }, { NULL, NULL },
};
