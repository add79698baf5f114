# The command `snug` in Debian 12, for a user without rights. docs/installing.md says how to run it.
#
#   docker build --build-arg SNUG_COMMIT="$(git rev-parse HEAD)" --tag snug .

FROM debian:12-slim AS build
WORKDIR /src
# What is installed stays in the cache while the sources change.
COPY tools/setup tools/setup
RUN tools/setup --build --package && rm -rf /var/lib/apt/lists/*
COPY . .
# The sources come without their repository: `snug --version` says what is given here.
ARG SNUG_COMMIT=
RUN cmake --preset release -DCMAKE_INSTALL_PREFIX=/usr -DSNUG_CUDA=OFF -DSNUG_ONEDNN=ON -DSNUG_CBC=ON -DSNUG_IMAGES=ON \
        -DSNUG_BUILD_TESTS=OFF -DSNUG_BUILD_BENCHMARKS=OFF "-DSNUG_COMMIT=$SNUG_COMMIT" \
    && cmake --build --preset release \
    && cpack -G DEB --config build/release/CPackConfig.cmake -B /packages

FROM debian:12-slim
# The package brings the libraries that it depends on.
RUN --mount=type=bind,from=build,source=/packages,target=/packages \
    apt-get update \
    && apt-get install --yes --no-install-recommends /packages/snug_*.deb \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 1000 --create-home snug && install --directory --owner=snug --group=snug /work
USER snug
WORKDIR /work
ENTRYPOINT ["snug"]
CMD ["--help"]
