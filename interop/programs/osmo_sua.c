/* Signalling gateway with an SCCP user, on libosmo-sigtran: sends back unitdata and the data of connections over SUA.
 *
 *     osmo_sua LOCAL-ADDRESS PEER-ADDRESS PEER-POINT-CODE
 *
 * The user is subsystem 8 at point code 1, the peer an ASP whose application server has this point code and routing
 * context. A line for each primitive. */
#include <stdio.h>
#include <stdlib.h>

#include <osmocom/core/application.h>
#include <osmocom/core/msgb.h>
#include <osmocom/core/select.h>
#include <osmocom/sigtran/osmo_ss7.h>
#include <osmocom/sigtran/protocol/sua.h>
#include <osmocom/sigtran/sccp_helpers.h>
#include <osmocom/sigtran/sccp_sap.h>

enum { PORT = 14001, SSN = 8, OWN_POINT_CODE = 1 };

static const struct log_info_cat categories[] = {};
static const struct log_info log_info = {.cat = categories, .num_cat = 0};

static int on_primitive(struct osmo_prim_hdr *oph, void *priv)
{
	struct osmo_sccp_user *user = priv;
	const struct osmo_scu_prim *prim = (struct osmo_scu_prim *)oph;
	const struct osmo_scu_unitdata_param *unitdata = &prim->u.unitdata;
	/* A primitive without data has no such layer. */
	const uint8_t *data = msgb_l2(oph->msg);
	const unsigned int length = data ? msgb_l2len(oph->msg) : 0;

	printf("%s\n", osmo_scu_prim_name(oph));
	switch (OSMO_PRIM_HDR(oph)) {
	case OSMO_PRIM(OSMO_SCU_PRIM_N_UNITDATA, PRIM_OP_INDICATION):
		osmo_sccp_tx_unitdata(user, &unitdata->called_addr, &unitdata->calling_addr, data, length);
		break;
	case OSMO_PRIM(OSMO_SCU_PRIM_N_CONNECT, PRIM_OP_INDICATION):
		osmo_sccp_tx_conn_resp(user, prim->u.connect.conn_id, &prim->u.connect.called_addr, data, length);
		break;
	case OSMO_PRIM(OSMO_SCU_PRIM_N_DATA, PRIM_OP_INDICATION):
		osmo_sccp_tx_data(user, prim->u.data.conn_id, data, length);
		break;
	default:
		break;
	}
	msgb_free(oph->msg);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: osmo_sua LOCAL-ADDRESS PEER-ADDRESS PEER-POINT-CODE\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	void *context = talloc_named_const(NULL, 0, "osmo_sua");
	osmo_init_logging2(context, &log_info);
	osmo_ss7_init();
	struct osmo_sccp_instance *sccp =
		osmo_sccp_simple_server(context, OWN_POINT_CODE, OSMO_SS7_ASP_PROT_SUA, PORT, argv[1]);
	const int peer = atoi(argv[3]);
	if (!sccp || !osmo_sccp_simple_server_add_clnt(sccp, OSMO_SS7_ASP_PROT_SUA, "peer", peer, PORT, 0, argv[2]))
		return 1;
	struct osmo_sccp_user *user = osmo_sccp_user_bind(sccp, "echo", on_primitive, SSN);
	if (!user)
		return 1;
	osmo_sccp_user_set_priv(user, user);
	printf("listening\n");
	while (osmo_select_main(0) >= 0)
		;
	return 1;
}
