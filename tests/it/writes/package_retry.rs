//! `package retry`: failed Jobs of the newer operator.

use std::path::Path;

use kubectl_skyhook::api::ApiFlavor;

use super::TestCluster;
use crate::support::fake_api::FakeApi;

#[test]
fn retry_deletes_only_the_failed_job() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters");
    let fake = FakeApi::new().serving(ApiFlavor::NodeWright);
    fake.load_file(&directory.join("modelled-job-given-up/cluster.json"));
    let cluster = TestCluster::serving(fake);
    let before = cluster.fake.objects().len();
    let ran = cluster.run("package retry driver --skyhook gpu --all-nodes --confirm");
    ran.expect_code(0);
    // A deleted Job is not recreated.
    ran.expect_no_stdout("undo");
    let job = "/apis/batch/v1/namespaces/nodewright/jobs/gpu-driver-2-0-1-apply-node-2";
    assert_eq!(
        cluster.writes(),
        [format!("DELETE {job}")],
        "{}",
        ran.transcript()
    );
    assert_eq!(cluster.fake.objects().len(), before - 1);
}
