//! The embedded run: nothing installed, nothing configured.

use super::arena::redrive;

#[tokio::test(flavor = "multi_thread")]
async fn run_all_embedded_passes_what_it_can_and_says_what_it_cannot() {
    let answer = redrive(&["drill", "run", "all", "--embedded"], "").await;
    let items = answer.json["items"].as_array().expect("items");
    let listed = redrive(&["drill", "list"], "").await;
    let drills = listed.json["items"].as_array().expect("items");
    assert_eq!(items.len(), drills.len());
    for (report, drill) in items.iter().zip(drills) {
        let places = drill["places"].as_array().expect("places");
        let is_possible = places.iter().any(|place| place == "embedded");
        let expected = if is_possible { "passed" } else { "not_run" };
        let number = report["number"].as_u64().expect("a number");
        assert_eq!(
            report["verdict"],
            expected,
            "{number}: {}\n{}\n{}",
            answer.damage(number),
            answer.steps(number),
            answer.stderr
        );
        assert_eq!(report["reason"].is_string(), !is_possible, "{report:#}");
    }
    assert_eq!(answer.code, 0, "{}", answer.stderr);
}
