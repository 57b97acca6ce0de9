// Writes the frames of every sample of demonstrations, as learners get them, to the standard
// output, for the comparison with robomimic's own data set: [sample][frame][observation, action],
// single precision, and then of each camera the images, [sample][frame][height][width][channels],
// bytes. Usage: maniple_window_tool <stack> <sequence> <pad stack> <pad sequence> data.file=FILE
// ... With data.cache=file they come from a file in output.directory.
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "src/config/deck.hpp"
#include "src/learning/samples.hpp"

int main(int argc, char** argv) {
  using namespace maniple;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    const Config config = load_config({}, {arguments.begin() + 4, arguments.end()}, false);
    WindowShape shape{.stack = std::stoi(arguments.at(0)),
                      .sequence = std::stoi(arguments.at(1)),
                      .pad_stack = arguments.at(2) == "1",
                      .pad_sequence = arguments.at(3) == "1"};
    if (config.where.count("diffusion.pad_after")) shape.most_padding_after = config.diffusion.pad_after;
    const std::string directory = config.data.cache == DataCache::file ? config.output.directory : "";
    const Demonstrations demonstrations(config, inspect_demonstrations(config), directory);
    const Windows windows(config, demonstrations.contents(), shape);
    const DemonstrationContents& contents = demonstrations.contents();
    std::vector<std::int64_t> rows(static_cast<std::size_t>(shape.frames()));
    const auto for_frames = [&](const auto& body) {
      for (std::int64_t sample = 0; sample < windows.samples(); ++sample) {
        windows.rows(sample, rows.data());
        for (const std::int64_t row : rows) body(row);
      }
    };
    for_frames([&](std::int64_t row) {
      std::fwrite(demonstrations.row(row), sizeof(float), static_cast<std::size_t>(contents.row_width()),
                  stdout);
    });
    for (const DemonstrationContents::Camera& camera : contents.cameras)
      for_frames([&](std::int64_t row) {
        std::fwrite(demonstrations.image(row, camera), 1, camera.bytes(), stdout);
      });
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}
