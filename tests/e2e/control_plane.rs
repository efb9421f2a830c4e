//! etcd, kube-apiserver and kube-controller-manager on 127.0.0.1, with RBAC and their own certificates.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::{
    api::{Access, Api},
    servers::{Servers, free_ports},
    tools::Tools,
};

/// Each user's token equals its name. At first only the administrator has rights.
const USERS: [&str; 3] = ["admin", "restricted", "operator"];

const CONTROLLERS: &str = "namespace-controller,serviceaccount-controller,serviceaccount-token-controller,\
                           garbage-collector-controller,root-ca-certificate-publisher-controller,\
                           job-controller,disruption-controller,pod-garbage-collector-controller";

pub struct ControlPlane {
    pub servers: Servers,
    url: String,
    ca: Vec<u8>,
    ca_pem: String,
}

impl ControlPlane {
    pub fn start(tools: &Tools) -> Result<Self> {
        let mut servers = Servers::new()?;
        let ca = CertifiedIssuer::self_signed(authority(), KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &ca)?;
        let certificate_file = servers.write("serving.crt", &certificate.pem())?;
        let key_file = servers.write("serving.key", &key.serialize_pem())?;
        let pair = KeyPair::generate()?;
        let accounts = servers.write("accounts.key", &pair.serialize_pem())?;
        let accounts_public = servers.write("accounts.pub", &pair.public_key_pem())?;
        let tokens = USERS.map(|user| match user {
            "admin" => "admin,admin,admin,\"system:masters\"\n".to_owned(),
            user => format!("{user},{user},{user}\n"),
        });
        let tokens = servers.write("tokens.csv", &tokens.concat())?;

        let [client_port, peer_port, port] = free_ports();
        let (etcd, peer) =
            (format!("http://127.0.0.1:{client_port}"), format!("http://127.0.0.1:{peer_port}"));
        let data = servers.dir().join("etcd").display().to_string();
        servers.start(
            "etcd",
            &tools.program("etcd"),
            &flags(&[
                ("data-dir", &data),
                ("listen-client-urls", &etcd),
                ("advertise-client-urls", &etcd),
                ("listen-peer-urls", &peer),
                ("initial-advertise-peer-urls", &peer),
                ("initial-cluster", &format!("default={peer}")),
                ("unsafe-no-fsync", "true"),
                // etcd keeps every revision for minutes; those of the bench's large clusters exceed the
                // default quota.
                ("quota-backend-bytes", "8589934592"),
                ("log-level", "warn"),
            ]),
            &BTreeMap::new(),
        )?;
        let url = format!("https://127.0.0.1:{port}");
        servers.start(
            "kube-apiserver",
            &tools.program("kube-apiserver"),
            &flags(&[
                ("etcd-servers", &etcd),
                ("bind-address", "127.0.0.1"),
                ("advertise-address", "127.0.0.1"),
                ("secure-port", &port.to_string()),
                ("endpoint-reconciler-type", "none"),
                ("authorization-mode", "RBAC"),
                ("allow-privileged", "true"),
                ("token-auth-file", &shown(&tokens)),
                ("tls-cert-file", &shown(&certificate_file)),
                ("tls-private-key-file", &shown(&key_file)),
                ("service-account-issuer", &url),
                ("service-account-key-file", &shown(&accounts_public)),
                ("service-account-signing-key-file", &shown(&accounts)),
                ("service-cluster-ip-range", "10.0.0.0/24"),
                // Rate limits are pointless here, and cost a second at start.
                ("enable-priority-and-fairness", "false"),
                // This plugin taints new nodes as not ready. No node lifecycle controller runs here to remove
                // the taint, and the operator would restore a removed one from its stale copy of the node.
                ("disable-admission-plugins", "TaintNodesByCondition"),
            ]),
            &BTreeMap::new(),
        )?;
        let plane = Self { servers, url, ca: ca.der().to_vec(), ca_pem: ca.pem() };
        plane.start_controllers(tools, &accounts)
    }

    fn start_controllers(mut self, tools: &Tools, accounts: &std::path::Path) -> Result<Self> {
        let ready = self.user("admin").and_then(|admin| admin.await_ready(Duration::from_secs(120)));
        ready.map_err(|error| error.context(self.servers.log_tail("kube-apiserver", 20)))?;
        let ca = self.write_kubeconfigs()?;
        self.servers.start(
            "kube-controller-manager",
            &tools.program("kube-controller-manager"),
            &flags(&[
                ("kubeconfig", &shown(&self.kubeconfig("admin"))),
                ("leader-elect", "false"),
                ("use-service-account-credentials", "false"),
                ("controllers", CONTROLLERS),
                ("service-account-private-key-file", &shown(accounts)),
                ("root-ca-file", &shown(&ca)),
                ("bind-address", "127.0.0.1"),
                // Disables the health and metrics endpoint.
                ("secure-port", "0"),
            ]),
            &BTreeMap::new(),
        )?;
        Ok(self)
    }

    pub fn access(&self, user: &str) -> Access {
        Access { url: self.url.clone(), ca: self.ca.clone(), token: user.to_owned() }
    }

    pub fn user(&self, name: &str) -> Result<Api> {
        Api::new(&self.access(name))
    }

    /// The kubeconfig file of a user.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        assert!(USERS.contains(&user), "there is no user {user}");
        self.servers.dir().join(format!("{user}.kubeconfig"))
    }

    /// Writes all kubeconfig files before anyone reads one: a half-written file would lack the CA certificate.
    pub fn write_kubeconfigs(&self) -> Result<PathBuf> {
        let ca = self.servers.write("ca.crt", &self.ca_pem)?;
        for user in USERS {
            self.servers.write(
                &format!("{user}.kubeconfig"),
                &format!(
                    "apiVersion: v1\nkind: Config\ncurrent-context: e2e\n\
                     clusters: [{{name: e2e, cluster: {{server: \"{}\", certificate-authority: \"{}\"}}}}]\n\
                     users: [{{name: {user}, user: {{token: {user}}}}}]\n\
                     contexts: [{{name: e2e, context: {{cluster: e2e, user: {user}}}}}]\n",
                    self.url,
                    shown(&ca)
                ),
            )?;
        }
        Ok(ca)
    }
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn flags(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

fn shown(path: &std::path::Path) -> String {
    path.display().to_string()
}
