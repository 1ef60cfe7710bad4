#include "base/file.h"

#include <gtest/gtest.h>
#include <csignal>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace zeroulp {
namespace fs = std::filesystem;
namespace {

class FileTest : public ::testing::Test {
 protected:
  FileTest() : folder_(fs::temp_directory_path() / ("zeroulp_file_test_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~FileTest() override { fs::remove_all(folder_); }
  int entries() const { return static_cast<int>(std::distance(fs::directory_iterator(folder_), {})); }
  fs::path folder_;
};

TEST_F(FileTest, UncommittedFileLeavesNothing) {
  {
    auto file = AtomicFile::create(folder_ / "a", false);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write("half"));
  }
  EXPECT_EQ(entries(), 0);
}

TEST_F(FileTest, CommittedFileIsWholeAndIsNotOverwrittenWithoutForce) {
  {
    auto file = AtomicFile::create(folder_ / "a", false);
    ASSERT_TRUE(file->write("whole"));
    ASSERT_TRUE(file->commit());
  }
  EXPECT_EQ(*read_text_file(folder_ / "a", 100), "whole");
  EXPECT_EQ(entries(), 1);
  EXPECT_FALSE(AtomicFile::create(folder_ / "a", false));
  EXPECT_EQ(AtomicFile::create(folder_ / "a", false).error().code, ExitCode::kBadInput);
  auto forced = AtomicFile::create(folder_ / "a", true);
  ASSERT_TRUE(forced->write("new"));
  EXPECT_EQ(*read_text_file(folder_ / "a", 100), "whole") << "the old content stands until the commit";
  ASSERT_TRUE(forced->commit());
  EXPECT_EQ(*read_text_file(folder_ / "a", 100), "new");
}

// A writer that is killed leaves its temporary file and folder; the next of the same target removes them, and touches nothing else.
TEST_F(FileTest, LeftoversOfKilledWritersAreSwept) {
  for (const char* kept : {".a.tmp-1-old", ".a.tmp-", ".a.tmp-x1", ".ab.tmp-1", "a.tmp-1"}) std::ofstream(folder_ / kept) << "kept";
  const int before = entries();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto file = AtomicFile::create(folder_ / "a", false);
    auto second = AtomicFile::create(folder_ / "a", false);
    auto folder = AtomicFolder::create(folder_ / "m", false);
    std::ofstream(folder->temporary() / "x") << "half";
    if (file && second && file->write("half")) ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(entries(), before + 3) << "two files and a folder are left";
  { ASSERT_TRUE(AtomicFile::create(folder_ / "a", false)); }
  EXPECT_EQ(entries(), before + 1) << "the folder is another target";
  { ASSERT_TRUE(AtomicFolder::create(folder_ / "m/", false)); }
  EXPECT_EQ(entries(), before);
}

TEST_F(FileTest, WritersThatLiveAreNotSwept) {
  auto file = AtomicFile::create(folder_ / "a", false);
  auto folder = AtomicFolder::create(folder_ / "m", false);
  ASSERT_TRUE(file && folder);
  std::ofstream(folder->temporary() / "config.json") << "{}";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // another process; exec is what would close the inherited descriptors, and here they are only of the same lock
    const auto other_file = AtomicFile::create(folder_ / "a", false);
    const auto other_folder = AtomicFolder::create(folder_ / "m", false);
    ::_exit(other_file && other_folder ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(file->write("whole"));
  ASSERT_TRUE(file->commit());
  ASSERT_TRUE(folder->commit());
  EXPECT_EQ(*read_text_file(folder_ / "a", 100), "whole");
  EXPECT_TRUE(fs::exists(folder_ / "m/config.json"));
}

TEST_F(FileTest, TwoOfOneTargetInOneProcessDoNotDisturbEachOther) {
  auto first = AtomicFile::create(folder_ / "a", true), second = AtomicFile::create(folder_ / "a", true);
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(first->write("first") && second->write("second"));
  ASSERT_TRUE(first->commit());
  ASSERT_TRUE(second->commit());
  EXPECT_EQ(*read_text_file(folder_ / "a", 100), "second");
  EXPECT_EQ(entries(), 1);
}

TEST_F(FileTest, LinksPipesAndDevicesAreNotReplacedEvenByForce) {
  std::ofstream(folder_ / "target") << "kept";
  fs::create_symlink(folder_ / "target", folder_ / "link");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "pipe"}) {
    const auto file = AtomicFile::create(folder_ / name, true);
    ASSERT_FALSE(file) << name;
    EXPECT_NE(file.error().text.find("not a regular file"), std::string::npos);
  }
  EXPECT_FALSE(AtomicFile::create("/dev/full", true));
  EXPECT_EQ(*read_text_file(folder_ / "target", 100), "kept");
}

TEST_F(FileTest, FolderAppearsWholeOrNotAtAllAndForceReplacesIt) {
  {
    auto folder = AtomicFolder::create(folder_ / "m/", false);
    ASSERT_TRUE(folder);
    std::ofstream(folder->temporary() / "x") << "1";
  }
  EXPECT_EQ(entries(), 0);
  for (const char* content : {"1", "2"}) {
    auto folder = AtomicFolder::create(folder_ / "m/", true);
    ASSERT_TRUE(folder);
    std::ofstream(folder->temporary() / "x") << content;
    std::ofstream(folder->temporary() / "config.json") << "{}";
    ASSERT_TRUE(folder->commit());
    EXPECT_EQ(*read_text_file(folder_ / "m" / "x", 100), content);
  }
  EXPECT_EQ(entries(), 1);
  EXPECT_FALSE(AtomicFolder::create(folder_ / "m", false));
}

TEST_F(FileTest, ForceReplacesNothingButAFolderLikeItsOwn) {
  fs::create_directories(folder_ / "home/docs");
  std::ofstream(folder_ / "home/config.json") << "{}";
  fs::create_directories(folder_ / "photos");
  std::ofstream(folder_ / "photos/1.jpg") << "x";
  fs::create_directory_symlink(folder_ / "photos", folder_ / "link");
  std::ofstream(folder_ / "file") << "x";
  for (const char* name : {"home", "photos", "link", "file"}) {
    const auto folder = AtomicFolder::create(folder_ / name, true);
    ASSERT_FALSE(folder) << name;
    EXPECT_NE(folder.error().text.find("replace"), std::string::npos) << folder.error().text;
    EXPECT_FALSE(check_folder_creatable(folder_ / name, true)) << name;
  }
  EXPECT_FALSE(AtomicFolder::create("/dev/null", true));
  EXPECT_EQ(*read_text_file(folder_ / "photos/1.jpg", 10), "x");
  fs::create_directories(folder_ / "empty");
  EXPECT_TRUE(AtomicFolder::create(folder_ / "empty", true));
}

TEST_F(FileTest, NamesThatGoThroughTheFolderItselfOrALinkStillMeanIt) {
  fs::create_directories(folder_ / "m");
  std::ofstream(folder_ / "m/config.json") << "old";
  fs::create_directory_symlink(folder_ / "m", folder_ / "link");
  for (const char* name : {"m/../m", "link/../m", "./m/.././m/"}) {
    auto folder = AtomicFolder::create(folder_ / name, true);
    ASSERT_TRUE(folder) << name << ": " << folder.error().text;
    std::ofstream(folder->temporary() / "config.json") << name;
    const Status done = folder->commit();
    ASSERT_TRUE(done) << done.error().text;
    EXPECT_EQ(*read_text_file(folder_ / "m/config.json", 100), name);
    EXPECT_EQ(entries(), 2) << "nothing is left beside it";
  }
}

TEST_F(FileTest, LimitsAndKindsAreRefusedInOneLine) {
  std::ofstream(folder_ / "big") << std::string(101, 'x');
  EXPECT_FALSE(read_text_file(folder_ / "big", 100));
  EXPECT_FALSE(read_text_file(folder_, 100));
  EXPECT_FALSE(read_text_file(folder_ / "absent", 100));
  EXPECT_FALSE(MappedFile::open(folder_));
  std::ofstream(folder_ / "empty");
  auto empty = MappedFile::open(folder_ / "empty");
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->bytes().empty());
}

}  // namespace
}  // namespace zeroulp
