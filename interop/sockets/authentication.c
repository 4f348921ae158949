/* Authenticated chunks (RFC 4895; RFC 6458, sections 8.1.17, 8.1.18, 8.2 and 8.3). */
#include "probe.h"

static int set_key(int fd, int number, const char *secret, int claimed, sctp_assoc_t id)
{
	char buffer[sizeof(struct sctp_authkey) + 64] = { 0 };
	struct sctp_authkey *key = (struct sctp_authkey *)buffer;
	size_t length = strlen(secret);
	key->sca_assoc_id = id;
	key->sca_keynumber = (uint16_t)number;
	key->sca_keylength = (uint16_t)claimed;
	memcpy(key->sca_key, secret, length);
	return setsockopt(fd, SOL_SCTP, SCTP_AUTH_KEY, key, (socklen_t)(sizeof(*key) + length));
}

static void chunks_step(const char *name, int fd, int option)
{
	char buffer[300] = { 0 };
	struct sctp_authchunks *chunks = (struct sctp_authchunks *)buffer;
	socklen_t length = sizeof(buffer);
	errno = 0;
	int result = getsockopt(fd, SOL_SCTP, option, chunks, &length);
	const char *all = "";
	for (unsigned int i = 0; result == 0 && i < chunks->gauth_number_of_chunks; i++)
		all = text("%s %u", all, chunks->gauth_chunks[i]);
	got(name, option == SCTP_LOCAL_AUTH_CHUNKS ? "get SCTP_LOCAL_AUTH_CHUNKS" : "get SCTP_PEER_AUTH_CHUNKS", result, length, all);
}

static void hmacs_step(const char *name, int fd)
{
	char buffer[64] = { 0 };
	struct sctp_hmacalgo *list = (struct sctp_hmacalgo *)buffer;
	socklen_t length = sizeof(buffer);
	errno = 0;
	int result = getsockopt(fd, SOL_SCTP, SCTP_HMAC_IDENT, list, &length);
	const char *all = "";
	for (unsigned int i = 0; result == 0 && i < list->shmac_num_idents; i++)
		all = text("%s %u", all, list->shmac_idents[i]);
	got(name, "get SCTP_HMAC_IDENT", result, length, all);
}

static int set_hmacs(int fd, unsigned int number, int first, int second)
{
	char buffer[sizeof(struct sctp_hmacalgo) + 2 * sizeof(uint16_t)] = { 0 };
	struct sctp_hmacalgo *list = (struct sctp_hmacalgo *)buffer;
	list->shmac_num_idents = number;
	list->shmac_idents[0] = (uint16_t)first;
	list->shmac_idents[1] = (uint16_t)second;
	return setsockopt(fd, SOL_SCTP, SCTP_HMAC_IDENT, list, (socklen_t)(sizeof(*list) + number * sizeof(uint16_t)));
}

static void with_data_chunks(int fd)
{
	struct sctp_authchunk data = { 0 };
	setsockopt(fd, SOL_SCTP, SCTP_AUTH_CHUNK, &data, sizeof(data));
	set_key(fd, 1, "a secret", 8, 0);
	subscribe(fd, SCTP_AUTHENTICATION_EVENT, 1);
}

static void settings(void)
{
	int fd = new_socket(AF_INET, SOCK_STREAM);
	struct sctp_assoc_value on = { 0, 1 }, off = { 0, 0 };
	SET("off", fd, SCTP_AUTH_SUPPORTED, off);
	struct sctp_authchunk chunk = { 0 };
	struct sctp_authkeyid id = { 0, 0 };
	SET("off.chunk", fd, SCTP_AUTH_CHUNK, chunk);
	CALL("off.hmacs", set_hmacs(fd, 1, 1, 0));
	hmacs_step("off.hmacs.get", fd);
	CALL("off.key", set_key(fd, 1, "secret", 6, 0));
	SET("off.activate", fd, SCTP_AUTH_ACTIVE_KEY, id);
	GET("off.active", fd, SCTP_AUTH_ACTIVE_KEY, id, "%u", id.scact_keynumber);
	SET("off.delete", fd, SCTP_AUTH_DELETE_KEY, id);
	SET("off.deactivate", fd, SCTP_AUTH_DEACTIVATE_KEY, id);
	chunks_step("off.local", fd, SCTP_LOCAL_AUTH_CHUNKS);
	SET("on", fd, SCTP_AUTH_SUPPORTED, on);
	hmacs_step("hmacs", fd);
	CALL("hmacs.sha1", set_hmacs(fd, 1, 1, 0));
	hmacs_step("hmacs.sha1.get", fd);
	CALL("hmacs.sha256-sha1", set_hmacs(fd, 2, 3, 1));
	hmacs_step("hmacs.sha256-sha1.get", fd);
	CALL("hmacs.sha256-only", set_hmacs(fd, 1, 3, 0));
	CALL("hmacs.unknown", set_hmacs(fd, 2, 1, 77));
	CALL("hmacs.none", set_hmacs(fd, 0, 0, 0));
	struct sctp_hmacalgo many = { 5 };
	SET("hmacs.wrong-number", fd, SCTP_HMAC_IDENT, many);
	chunks_step("local", fd, SCTP_LOCAL_AUTH_CHUNKS);
	SET("chunk.data", fd, SCTP_AUTH_CHUNK, chunk);
	SET("chunk.data-again", fd, SCTP_AUTH_CHUNK, chunk);
	static const struct {
		const char *name;
		uint8_t type;
	} chunks[] = { { "init", 1 }, { "init-ack", 2 }, { "shutdown-complete", 14 }, { "auth", 15 }, { "sack", 3 }, { "asconf", 193 }, { "unknown", 200 } };
	for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
		chunk.sauth_chunk = chunks[i].type;
		SET(text("chunk.%s", chunks[i].name), fd, SCTP_AUTH_CHUNK, chunk);
	}
	chunks_step("chunks.local", fd, SCTP_LOCAL_AUTH_CHUNKS);
	chunks_step("chunks.peer-unconnected", fd, SCTP_PEER_AUTH_CHUNKS);
	CALL("key", set_key(fd, 1, "secret", 6, 0));
	CALL("key.again", set_key(fd, 1, "another", 7, 0));
	CALL("key.claims-more", set_key(fd, 2, "secret", 60, 0));
	CALL("key.claims-0", set_key(fd, 3, "secret", 0, 0));
	CALL("key.empty", set_key(fd, 4, "", 0, 0));
	GET("active", fd, SCTP_AUTH_ACTIVE_KEY, id, "%u", id.scact_keynumber);
	id.scact_keynumber = 1;
	SET("activate", fd, SCTP_AUTH_ACTIVE_KEY, id);
	GET("activate.get", fd, SCTP_AUTH_ACTIVE_KEY, id, "%u", id.scact_keynumber);
	SET("delete-active", fd, SCTP_AUTH_DELETE_KEY, id);
	SET("deactivate-active", fd, SCTP_AUTH_DEACTIVATE_KEY, id);
	id.scact_keynumber = 77;
	SET("activate-unknown", fd, SCTP_AUTH_ACTIVE_KEY, id);
	SET("delete-unknown", fd, SCTP_AUTH_DELETE_KEY, id);
	SET("deactivate-unknown", fd, SCTP_AUTH_DEACTIVATE_KEY, id);
	id.scact_keynumber = 3;
	SET("deactivate", fd, SCTP_AUTH_DEACTIVATE_KEY, id);
	SET("activate-deactivated", fd, SCTP_AUTH_ACTIVE_KEY, id);
	SET("delete", fd, SCTP_AUTH_DELETE_KEY, id);
	id.scact_keynumber = 0;
	SET("delete-null", fd, SCTP_AUTH_DELETE_KEY, id);
	int socket_many = new_socket(AF_INET, SOCK_SEQPACKET);
	CALL("unknown-id", set_key(socket_many, 1, "secret", 6, UNKNOWN_ID));
}

static void in_use(void)
{
	struct pair p = connected(with_data_chunks);
	drain("up.client", p.client);
	drain("up.server", p.server);
	chunks_step("local", p.client, SCTP_LOCAL_AUTH_CHUNKS);
	chunks_step("peer", p.client, SCTP_PEER_AUTH_CHUNKS);
	CALL("send", send(p.client, "authenticated", 13, 0));
	drain("recv", p.server);
	struct sctp_authkeyid id = { 0, 1 };
	SET("activate.client", p.client, SCTP_AUTH_ACTIVE_KEY, id);
	SET("activate.server", p.server, SCTP_AUTH_ACTIVE_KEY, id);
	GET("activate.get", p.client, SCTP_AUTH_ACTIVE_KEY, id, "%u", id.scact_keynumber);
	CALL("activate.send", send(p.client, "with key 1", 10, 0));
	drain("activate.recv", p.server);
	CALL("new-key.client", set_key(p.client, 2, "second secret", 13, 0));
	CALL("new-key.server", set_key(p.server, 2, "second secret", 13, 0));
	drain("new-key.events", p.client);
	struct sctp_authinfo key = { 2 };
	CALL("by-message", send_control(p.client, NULL, "with key 2", SCTP_AUTHINFO, &key, sizeof(key)));
	drain("by-message.recv", p.server);
	key.auth_keynumber = 55;
	CALL("by-message-unknown", send_control(p.client, NULL, "with key 55", SCTP_AUTHINFO, &key, sizeof(key)));
	id.scact_keynumber = 2;
	SET("second", p.client, SCTP_AUTH_ACTIVE_KEY, id);
	id.scact_keynumber = 1;
	SET("deactivate", p.client, SCTP_AUTH_DEACTIVATE_KEY, id);
	drain("deactivate.events", p.client);
	SET("delete", p.client, SCTP_AUTH_DELETE_KEY, id);
	drain("delete.events", p.client);
	CALL("send-second", send(p.client, "with key 2 again", 16, 0));
	drain("recv-second", p.server);
	/* A peer without authentication. */
	int listener = listening(SOCK_STREAM), client = new_socket(AF_INET, SOCK_STREAM);
	struct sctp_assoc_value off = { 0, 0 };
	SET("off", listener, SCTP_AUTH_SUPPORTED, off);
	with_data_chunks(client);
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	CALL("off.connect", connect(client, SA(address)));
	drain("off.events", client);
	struct sctp_assoc_value supported = { 0, 0 };
	GET("off.supported", client, SCTP_AUTH_SUPPORTED, supported, "%u", supported.assoc_value);
	chunks_step("off.peer", client, SCTP_PEER_AUTH_CHUNKS);
	CALL("off.send", send(client, "plain", 5, MSG_DONTWAIT));
}

static void without_authentication(int fd)
{
	struct sctp_assoc_value off = { 0, 0 };
	if (setsockopt(fd, SOL_SCTP, SCTP_AUTH_SUPPORTED, &off, sizeof(off)) != 0)
		fail("SCTP_AUTH_SUPPORTED");
	subscribe(fd, SCTP_ASSOC_CHANGE, 1);
	subscribe(fd, SCTP_AUTHENTICATION_EVENT, 1);
}

/* Neither side has authentication. */
static void off(void)
{
	struct pair p = connected(without_authentication);
	drain("client", p.client);
	drain("server", p.server);
	p = associated(without_authentication);
	CALL("many.answer", send_info(p.server, NULL, "more", (struct sctp_sndinfo){ .snd_assoc_id = p.server_id }));
	drain("many.client", p.client);
}

const struct probe_case authentication_cases[] = {
	{ "auth.settings", settings }, { "auth.in-use", in_use }, { "auth.off", off }, { NULL, NULL },
};
