# The image holds what Sluice needs to run and nothing else: no shell, no pip, no compiler.
#
#   make image, or: docker build -t sluice .
#   docker run --rm --network host --read-only --cap-drop ALL sluice run --upstream kafka-1:9092
#
# Sluice writes no file: it runs with a read-only root, without capabilities, as any user.
# The secrets are optional: `pip` is a pip.conf that names a registry of one's own, `ca` certificates that it uses.
# The base by its digest (of all platforms; the tag is for people): a tag can be given to another image.
ARG BASE=python:3.13.14-slim-trixie@sha256:9662417aace5ae7b8e2609cce472b72a8958e134ba372808abe9cc1a0c0125e6

FROM ${BASE} AS base
# The same order of sets in every compiled module.
ENV PYTHONHASHSEED=0 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_CACHE_DIR=/var/cache/pip \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# The wheel of Sluice. The compiler, Cython and the C files stay in this stage. COMPILE=0: a pure wheel, without a compiler.
FROM base AS wheel
ARG COMPILE=1
# hadolint ignore=DL3008 # the compiler that belongs to the base's Debian
RUN if [ "${COMPILE}" != 0 ] && ! command -v gcc; then \
      apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*; \
    fi
COPY requirements/build.txt requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/run/secrets/ca.pem \
    --mount=type=cache,target=/var/cache/pip \
    python3 -m venv /opt/build \
 && /opt/build/bin/python -m pip install --no-compile --only-binary :all: --require-hashes -r requirements/build.txt
COPY . .
RUN SLUICE_COMPILE="${COMPILE}" /opt/build/bin/python -m pip wheel --no-index --no-deps --no-build-isolation -w /wheels .

# The locked libraries, Sluice, and from both the root file system of the image. LOCK=msk: with those of the extra `msk`.
FROM base AS build
ARG SOURCE_DATE_EPOCH=0
ARG LOCK=run
COPY requirements/${LOCK}.txt requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/run/secrets/ca.pem \
    --mount=type=cache,target=/var/cache/pip \
    python3 -m venv /opt/sluice \
 && /opt/sluice/bin/python -m pip install --no-compile --only-binary :all: --require-hashes -r "requirements/${LOCK}.txt"
COPY pyproject.toml ./
COPY .build .build
COPY --from=wheel /wheels /wheels
RUN /opt/sluice/bin/python -m pip install --no-compile --no-index --no-deps --find-links /wheels kafka-sluice \
 && /opt/sluice/bin/python -m pip uninstall --yes setuptools pip \
 && python3 .build/root_filesystem /image

FROM scratch
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Sluice" \
      org.opencontainers.image.description="A Kafka-protocol sidecar proxy that enforces policies on every request" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"
COPY --from=build /image /
ENV PATH=/opt/sluice/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUTF8=1
USER 65532:65532
WORKDIR /
# The bootstrap port and one port for each of the node ids 0 to 31; probes and metrics.
EXPOSE 19092-19124 9644
STOPSIGNAL SIGTERM
ENTRYPOINT ["sluice"]
CMD ["run"]
