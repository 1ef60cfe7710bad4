// docs/spec/model.md against the code: the worked example, and a reader that shares nothing with it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/file.h"
#include "io/temporary_folder.h"
#include "model/seeded.h"
#include "source_dir.h"

namespace zeroulp::quant {
namespace {

model::QuantizedModel example() {
  model::SeededShape s;
  s.hidden = 4, s.intermediate = 6, s.layers = 1, s.heads = 2, s.kv_heads = 1, s.head_dim = 2, s.vocab = 5;
  s.max_positions = 16, s.key_width = 8;
  return model::make_seeded(s, 1);
}

TEST(ModelSpec, WorkedExample) {
  const std::string identity = example().identity();
  EXPECT_EQ(identity, "6674da05151fbb30da6f15abd160138b3640a93e7707c7b4a033291d3d734d5b");
  const auto page = read_text_file(source_dir() + "/docs/spec/model.md", 1 << 20);
  ASSERT_TRUE(page);
  EXPECT_NE(page->find(identity), std::string::npos);
}

TEST(ModelSpec, IndependentReaderAgrees) {
  if (std::system("python3 -c pass > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no python3";
  model::SeededShape qwen;
  qwen.architecture = "qwen2", qwen.tied_head = false, qwen.window = 8, qwen.width = 0, qwen.key_width = 0;
  for (const auto& m : {example(), model::make_seeded(qwen, 2)}) {
    TemporaryFolder folder;
    ASSERT_TRUE(m.save(folder.path()));
    const std::string run = "python3 " + source_dir() + "/tools/spec/model_identity.py " + folder.path().string();
    const std::string out = (folder.path() / "identity").string();
    EXPECT_EQ(std::system((run + " > " + out).c_str()), 0);
    const auto printed = read_text_file(out, 100);
    ASSERT_TRUE(printed);
    EXPECT_EQ(*printed, m.identity() + "\n");
  }
}

}  // namespace
}  // namespace zeroulp::quant
