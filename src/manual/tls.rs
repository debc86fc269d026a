//! Nodes that are reached by TLS: authorities, client certificates, names, and what errors mean.
//!
//! Build with the feature `tls`. It is TLS 1.2 and 1.3 by rustls, with the cryptography of `ring`; nothing
//! of OpenSSL is linked, and nothing is set for the whole process.
//!
//! # The URL says it
//!
//! `rediss://` (or `valkeys://`) is TLS, `redis://` is not. The port is still 6379 if none is named, and
//! servers usually have another one for TLS (`tls-port`): name it.
//!
//! ```text
//! rediss://app:secret@db1.example:6380
//! rediss://10.0.0.1:6380/2?ca=/etc/locks/ca.pem&name=db1.example
//! rediss://10.0.0.2:6380?ca=/etc/locks/ca.pem&cert=/etc/locks/client.pem&key=/etc/locks/client.key
//! ```
//!
//! | in the URL | in `TlsOptions`, for all nodes | what it is | if it is missing |
//! | --- | --- | --- | --- |
//! | `ca` | `authorities_file`, `authorities_pem` | The authorities whose certificates are trusted. No others are then. | those of the system |
//! | `cert`, `key` | `identity_files`, `identity_pem` | A client certificate, with those between it and its authority behind it, and its key. | none is shown |
//! | `name` | `server_name` | The host name or address that the certificate of the node has to be for. It is also sent to the node (SNI). | the host of the URL |
//!
//! A file of authorities may hold the certificate of a node itself, which is trusted then whoever has issued it. But every
//! certificate there counts as an authority too, for all names: give such nodes a `ca` each, in their URLs.
//!
//! What a URL names comes before what `Builder::tls` says. All files are PEM. Paths in URLs are
//! percent-encoded, and a `#`, `&`, `%`, `@` or space in one has to be.
//!
//! Some nodes may have TLS and others not: each URL says it for its own node. TLS can also be ended by a proxy on the
//! machine of the client (stunnel, envoy), at the price of one more process to fail.
//!
//! # An authority of your own
//!
//! Usually the nodes have certificates of an authority that you run yourself:
//!
//! ```text
//! # Once. Keep ca.key to yourself; ca.pem goes to every node and client.
//! openssl ecparam -genkey -name prime256v1 -noout -out ca.key
//! openssl req -x509 -new -key ca.key -days 3650 -subj '/CN=locks' -out ca.pem \
//!     -addext 'basicConstraints=critical,CA:TRUE' -addext 'keyUsage=critical,keyCertSign'
//!
//! # For each node, with its name and address.
//! openssl ecparam -genkey -name prime256v1 -noout -out db1.key
//! openssl req -new -key db1.key -subj '/CN=db1.example' -out db1.csr
//! printf 'subjectAltName=DNS:db1.example,IP:10.0.0.1\nextendedKeyUsage=serverAuth' > db1.ext
//! openssl x509 -req -in db1.csr -CA ca.pem -CAkey ca.key -days 365 -extfile db1.ext -out db1.pem
//! ```
//!
//! The names have to stand in `subjectAltName`: the common name (`CN`) counts for nothing. In the
//! configuration of the server:
//!
//! ```text
//! port 0
//! tls-port 6380
//! tls-cert-file /etc/redis/db1.pem
//! tls-key-file /etc/redis/db1.key
//! tls-ca-cert-file /etc/redis/ca.pem
//! tls-auth-clients no
//! ```
//!
//! With `tls-auth-clients yes` (its default) each client has to show a certificate of that authority, with
//! `extendedKeyUsage=clientAuth`:
//!
//! ```text
//! openssl ecparam -genkey -name prime256v1 -noout -out client.key
//! openssl req -new -key client.key -subj '/CN=billing' -out client.csr
//! printf 'extendedKeyUsage=clientAuth' > client.ext
//! openssl x509 -req -in client.csr -CA ca.pem -CAkey ca.key -days 365 -extfile client.ext -out client.pem
//! ```
//!
//! It proves that the client may connect. Which commands it may run still depends on its user and
//! password ([`permissions`](super::permissions)).
//!
//! A key that is protected by a password is refused when the handle is built: a program has no one to ask
//! for the password. `openssl pkey -in protected.pem -out key.pem` writes it without one.
//!
//! # A certificate by itself
//!
//! A certificate that `ca` holds is trusted as that of a node too, whoever has issued it: a self-signed one, that of an
//! authority, or one whose authority is not there. (OpenSSL calls that a partial chain.) It has to be the very same
//! certificate, and its dates and names are still checked: it needs a `subjectAltName`. One line makes it:
//!
//! ```text
//! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout db1.key -days 365 \
//!     -subj '/CN=db1.example' -addext 'subjectAltName=DNS:db1.example,IP:10.0.0.1' -out db1.pem
//! ```
//!
//! # Certificates that change
//!
//! * A connection that is open stays open when certificates end or files change.
//! * Before each new connection the files are read again. If one has changed, what it holds is used from
//!   then on. Files of the system's authorities are not read again: build another handle for those.
//! * If a file cannot be used then (missing, or a key that does not fit), the node is
//!   [`Unusable::Tls`](crate::Unusable::Tls), "cannot be used any more", until the file is corrected. Replace the certificate
//!   and its key together (write new files, then rename them), or the node is missing in between.
//! * Files are read on the thread that moves bytes. Keep them on a local disk.
//! * A session that was resumed checks no certificate. So sessions are forgotten when a file has changed,
//!   after a handshake that failed, and after an hour.
//!
//! # What errors mean
//!
//! What can be found before any I/O is an error of the URL
//! ([`ConfigError::Url`](crate::ConfigError::Url)). Files are read when a handle is built: `BuildError::Tls`
//! names the node, the setting, the path and what is wrong. What the handshake shows makes
//! the node [`Unusable::Tls`](crate::Unusable::Tls); it is tried again with the usual back-off, and a
//! majority of such nodes ends a call at once.
//!
//! | the [text](crate::TlsFailure) has | what to look at |
//! | --- | --- |
//! | `expired on`, `not valid before` | The certificate of the node, or of an authority between; the clock of this machine. |
//! | `unknown authority` | `ca` is not the authority of this node, or is missing. |
//! | `another of the same name` | The authority was made anew with its old name, or `ca` is that of another cluster. |
//! | `self-signed`, `that of an authority` | The certificate itself has to be named, see below; or is not the right one. |
//! | `names no host`, `version 1` | It was issued without `-extfile`, see above. |
//! | `another name` | `subjectAltName` lacks the host of the URL. Is it the right server? Then `name`. |
//! | `malformed, not one of a server` | It is a client's certificate (`extendedKeyUsage`), malformed, or signed with SHA-1 or a short RSA key. |
//! | `wants a client certificate`, `refuses the client certificate` | `cert` and `key`; `tls-ca-cert-file` of the server. The number is the alert: 48 is an unknown authority, 45 an expired certificate, 43 one that is not for clients (`extendedKeyUsage`). |
//! | `does not speak TLS` | The port. A plain port of Redis says nothing at all to a TLS client: that is `no answer within the connect timeout`. |
//! | `no TLS version and cipher in common` | `tls-protocols`, `tls-ciphers` and `tls-ciphersuites` of the server. |
//! | `refused the TLS handshake` | The log of the server. With TLS 1.2 a missing client certificate is 40. |
//! | `cannot be used any more` | The file, see above. |
//!
//! The other way round, a plain client on a TLS port, is
//! `connection reset in the handshake; the port may want TLS`. A server with TLS that has reached its
//! `maxclients` closes the connection without a word, where without TLS it says so.
//!
//! No error, log line or `Debug` output holds a key or a password.
//!
//! # What it changes, and what not
//!
//! Guarantees, timeouts and outcomes are the same. The TLS handshake is a part of connecting
//! ([`Builder::connect_timeout`](crate::Builder::connect_timeout)): two round trips with TLS 1.3 and the
//! connection itself, three with TLS 1.2. A command that was encrypted cannot be taken back before it is
//! sent, so it counts as sent: at most 16 KiB of commands for each node, whose locks are released if
//! the caller has given up.
//!
//! Each write and each read is one record of TLS, for which rustls allocates a buffer; the connection itself
//! allocates nothing more. A forked child writes nothing to the connections of its parent, not even that
//! they end.
