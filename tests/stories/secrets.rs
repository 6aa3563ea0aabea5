//! X-05 on real servers: a password is in no row, on no screen, in no log and in no panic.

use std::path::Path;

use sqlx::{AssertSqlSafe, MySqlPool, Row};

use super::at_the_screen::go_to_letters;
use super::redrive::{Answer, Console, replay};
use super::shop::{Event, SANDBOX, Shop, python, server};
use crate::pty::{self, LEAVE_SCREEN, READ_THE_PLAN};

const SIZE: pty::Size = (120, 36);
const SECRET: &str = "S3CRET-42";

/// An account of the story on each server, with the secret as its password.
struct Account {
    name: String,
}

impl Account {
    async fn make(shop: &Shop) -> Self {
        let id = uuid::Uuid::now_v7().simple().to_string();
        let name = format!("x{}", &id[12..]);
        for statement in [
            format!("CREATE USER '{name}'@'%' IDENTIFIED BY '{SECRET}'"),
            format!("GRANT ALL PRIVILEGES ON *.* TO '{name}'@'%'"),
        ] {
            sqlx::query(AssertSqlSafe(statement))
                .execute(&shop.orders)
                .await
                .expect("an account");
        }
        let management = server("REDRIVE_TEST_MANAGEMENT_URL");
        python(&["account", &management, &shop.vhost, &name, SECRET], "").await;
        Self { name }
    }

    /// The shop's configuration with this account and password everywhere.
    fn console(&self, shop: &Shop, password: &str, home: &Path) -> Console {
        let mut text = shop.console.configuration();
        for variable in [
            "REDRIVE_TEST_MARIADB_URL",
            "REDRIVE_TEST_AMQP_URL",
            "REDRIVE_TEST_MANAGEMENT_URL",
        ] {
            let url = server(variable);
            let (whose, _) = url.split_once('@').expect("an account");
            let (scheme, _) = url.split_once("://").expect("a scheme");
            text = text.replace(whose, &format!("{scheme}://{}:{password}", self.name));
        }
        let config = shop.folder().join(format!("{}.toml", password.len()));
        std::fs::write(&config, text).expect("a configuration");
        Console::new(config, home)
    }

    async fn remove(self, shop: &Shop) {
        let drop = format!("DROP USER '{}'@'%'", self.name);
        sqlx::query(AssertSqlSafe(drop))
            .execute(&shop.orders)
            .await
            .expect("dropped");
        let management = server("REDRIVE_TEST_MANAGEMENT_URL");
        python(&["forget", &management, &self.name], "").await;
    }
}

/// Every value of every table of a database in which the secret stands.
async fn rows_with_secret(pool: &MySqlPool) -> Vec<String> {
    let columns = sqlx::query(
        "SELECT CAST(TABLE_NAME AS CHAR), CAST(COLUMN_NAME AS CHAR)
         FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()",
    )
    .fetch_all(pool)
    .await
    .expect("columns");
    assert!(columns.len() > 50, "our tables are there");
    let mut found = Vec::new();
    for column in columns {
        let (table, column): (String, String) = (column.get(0), column.get(1));
        let statement = format!(
            "SELECT COUNT(*) FROM `{table}` WHERE INSTR(CAST(`{column}` AS BINARY), '{SECRET}') > 0"
        );
        let row = sqlx::query(AssertSqlSafe(statement)).fetch_one(pool).await;
        if row.expect("a count").get::<i64, _>(0) > 0 {
            found.push(format!("{table}.{column}"));
        }
    }
    found
}

/// Files under a folder in which the secret stands; the number of all files read.
fn files_with_secret(folder: &Path) -> (usize, Vec<String>) {
    let (mut read, mut found) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            let (more, inside) = files_with_secret(&path);
            read += more;
            found.extend(inside);
        } else {
            read += 1;
            let bytes = std::fs::read(&path).expect("readable");
            if bytes
                .windows(SECRET.len())
                .any(|part| part == SECRET.as_bytes())
            {
                found.push(path.display().to_string());
            }
        }
    }
    (read, found)
}

/// The screen and everything that was written to the terminal.
fn assert_not_shown(screen: &pty::Console) {
    for text in [&screen.shown(), &screen.written] {
        assert!(!text.contains(SECRET), "{text}");
    }
}

fn assert_not_told(answer: &Answer) {
    assert!(!format!("{answer:?}").contains(SECRET), "{answer:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x_05_a_password_is_in_no_row_on_no_screen_in_no_log_and_in_no_panic() {
    let events = [Event::order(1, false), Event::order(2, false)];
    let (shop, _) = Shop::with_dead_letters("secret", &events).await;
    let account = Account::make(&shop).await;
    let home = tempfile::tempdir().expect("a folder");
    let loud = [("RUST_LOG", "trace"), ("RUST_BACKTRACE", "full")];

    // A panic in the middle of an action.
    let console = account.console(&shop, SECRET, home.path());
    let crash = (
        "FAILPOINTS",
        "replay.before_publish=panic(injected by a test)",
    );
    let mut screen = console.open(SIZE, SANDBOX, &[&loud[..], &[crash]].concat());
    go_to_letters(&mut screen);
    screen.press(&format!("/id:{}\r", events[0].id));
    screen.wait_for("1 of ");
    screen.press("R");
    screen.wait_for("same as");
    screen.press("\t");
    screen.press("a test");
    screen.wait_for("a test");
    screen.press("\r");
    screen.press_after(READ_THE_PLAN, "y");
    screen.wait_written("injected by a test");
    screen.child.wait().expect("ends");
    assert_not_shown(&screen);

    // An action from end to end, and everything that speaks of servers.
    for arguments in [
        &replay(&events[1].id, &[])[..],
        &["check"],
        &["config", "show"],
        &["operations"],
        &["audit"],
    ] {
        let answer = console.try_run(arguments).await;
        assert!(matches!(answer.code, 0 | 3), "{arguments:?}: {answer:#?}");
        assert_not_told(&answer);
    }

    // A password that the servers refuse.
    let refused = account.console(&shop, &format!("{SECRET}-wrong"), home.path());
    let mut screen = refused.open(SIZE, SANDBOX, &loud);
    screen.wait_for("denied");
    for pane in ["2", "3", "4", "5", "6", "8", "9", "1"] {
        screen.press(pane);
        screen.wait_for("denied");
        assert_not_shown(&screen);
    }
    screen.press("q");
    screen.wait_written(LEAVE_SCREEN);
    assert_not_shown(&screen);
    screen.end();
    for arguments in [&["check"][..], &["status"], &["audit"]] {
        assert_not_told(&refused.try_run(arguments).await);
    }

    for pool in [&shop.orders, &shop.inventory] {
        assert_eq!(rows_with_secret(pool).await, Vec::<String>::new());
    }
    assert!(
        shop.console.verify_audit().await >= 3,
        "there was something to look at"
    );
    let (read, found) = files_with_secret(home.path());
    assert!(read > 0, "a log was written");
    assert_eq!(found, Vec::<String>::new());
    account.remove(&shop).await;
    shop.close().await;
}
