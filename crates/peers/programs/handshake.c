/* What a TLS 1.3 handshake costs both ends: the peer that costof's cpu.tls is held
 * against, by OpenSSL.
 *
 *   handshake COUNT
 *
 * COUNT times: a client and a server in one thread connect through memory, by X25519 and
 * a certificate of an Ed25519 key that is the client's only authority; without tickets,
 * so that nothing is resumed. The first tenth is not counted. Prints the median
 * nanoseconds of both ends together. */
#define _GNU_SOURCE
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "peer.h"

static void refuse(const char *what)
{
    fprintf(stderr, "handshake: %s\n", what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

/* A certificate that its own key has signed. */
static X509 *signed_by_itself(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    X509_NAME *name = certificate ? X509_get_subject_name(certificate) : NULL;
    const unsigned char *const text = (const unsigned char *)"costof";
    if (!name || !X509_set_version(certificate, 2) ||
        !ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) ||
        !X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) ||
        !X509_gmtime_adj(X509_getm_notAfter(certificate), 3600) ||
        !X509_set_pubkey(certificate, key) ||
        !X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) ||
        !X509_set_issuer_name(certificate, name) || !X509_sign(certificate, key, NULL))
        refuse("cannot make a certificate");
    return certificate;
}

static SSL_CTX *end_of(const SSL_METHOD *method)
{
    SSL_CTX *end = SSL_CTX_new(method);
    if (!end || !SSL_CTX_set_min_proto_version(end, TLS1_3_VERSION) ||
        !SSL_CTX_set1_groups_list(end, "X25519") || !SSL_CTX_set_num_tickets(end, 0))
        refuse("cannot use TLS 1.3");
    SSL_CTX_set_session_cache_mode(end, SSL_SESS_CACHE_OFF);
    return end;
}

static void connect_in_memory(SSL_CTX *of_client, SSL_CTX *of_server)
{
    SSL *client = SSL_new(of_client), *server = SSL_new(of_server);
    BIO *one = NULL, *other = NULL;
    if (!client || !server || !BIO_new_bio_pair(&one, 32 << 10, &other, 32 << 10))
        refuse("cannot make two ends");
    SSL_set_bio(client, one, one);
    SSL_set_bio(server, other, other);
    SSL_set_connect_state(client);
    SSL_set_accept_state(server);
    for (int turns = 0; !SSL_is_init_finished(client) || !SSL_is_init_finished(server); turns++) {
        SSL_do_handshake(client);
        SSL_do_handshake(server);
        if (turns > 10)
            refuse("the ends do not agree");
    }
    if (SSL_session_reused(client) || SSL_get_verify_result(client) != X509_V_OK)
        refuse("the server was not verified");
    SSL_free(client);
    SSL_free(server);
}

int main(int argc, char **argv)
{
    const size_t count = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
    if (count < 10) {
        fprintf(stderr, "usage: handshake COUNT, 10 or more\n");
        return 2;
    }
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    if (!key)
        refuse("cannot make a key");
    X509 *certificate = signed_by_itself(key);
    SSL_CTX *server = end_of(TLS_server_method()), *client = end_of(TLS_client_method());
    if (!SSL_CTX_use_certificate(server, certificate) || !SSL_CTX_use_PrivateKey(server, key) ||
        !X509_STORE_add_cert(SSL_CTX_get_cert_store(client), certificate))
        refuse("cannot use the certificate");
    SSL_CTX_set_verify(client, SSL_VERIFY_PEER, NULL);
    double *times_ns = room_for(count);
    for (size_t i = 0; i < count; i++) {
        const double started = now_ns();
        connect_in_memory(client, server);
        times_ns[i] = now_ns() - started;
    }
    const size_t first = count / 10;
    printf("%.0f ns per handshake\n", median(times_ns + first, count - first));
    return 0;
}
